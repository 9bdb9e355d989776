package routestate

import (
	"errors"
	"maps"
	"slices"

	"github.com/watershipmq/watership/retry"
)

// Schedule has the attempts of a message that fails with errors of one class.
type Schedule struct {
	Class    string    `json:"class,omitempty" doc:"Class of errors; none: all others"`
	Attempts int       `json:"attempts" doc:"Attempts until the message is given up, the first included"`
	Delays   []float64 `json:"delays_seconds" nullable:"false" doc:"Seconds between the attempts, at most the first 100"`
	Total    float64   `json:"total_seconds" doc:"Seconds from the first attempt until the message is given up, without the time of the attempts"`
	Jitter   float64   `json:"jitter,omitempty" doc:"Share of each delay by which it may be shorter"`
}

const maxDelays = 100 // of a Schedule

// schedules returns the schedule of the policy itself, then the schedules of its classes by name.
func schedules(policy *retry.Policy) []Schedule {
	if policy == nil {
		return nil
	}
	list := []Schedule{schedule("", *policy)}
	for _, class := range slices.Sorted(maps.Keys(policy.Classes)) {
		list = append(list, schedule(class, policy.Classes[class]))
	}
	return list
}

func schedule(class string, policy retry.Policy) Schedule {
	policy.Classes = nil
	s := Schedule{Class: class, Attempts: policy.MaxAttempts(), Delays: []float64{}, Jitter: policy.Jitter}
	for attempt := 1; attempt < s.Attempts; attempt++ {
		delay := policy.Count(errors.New("any"), attempt, nil).Delay.Seconds()
		if s.Total += delay; len(s.Delays) < maxDelays {
			s.Delays = append(s.Delays, delay)
		}
	}
	return s
}

// attemptsOf returns the number of attempts for errors of a class; 0: it is not known.
func attemptsOf(list []Schedule, class string) int {
	for _, s := range list {
		if s.Class == class {
			return s.Attempts
		}
	}
	if len(list) == 0 {
		return 0
	}
	return list[0].Attempts
}
