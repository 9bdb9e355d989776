package routes

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/watershipmq/watership/retry"
)

// Schedule has the attempts of a message that fails with errors of one class.
type Schedule struct {
	Class    string    `json:"class,omitempty" doc:"Class of errors; none: all others"`
	Attempts int       `json:"attempts" doc:"Attempts until the message is given up, the first included"`
	Delays   []float64 `json:"delays_seconds" nullable:"false" doc:"Seconds between the attempts, at most the first 100; with hours and windows, of a message whose first attempt fails now"`
	Total    float64   `json:"total_seconds" doc:"Seconds from the first attempt until the message is given up, without the time of the attempts"`
	Jitter   float64   `json:"jitter,omitempty" doc:"Share of each delay by which it may be shorter"`

	At          []string `json:"at,omitempty" nullable:"false" doc:"Hours of the day of the last attempts"`
	NoAttempts  []string `json:"no_attempts,omitempty" nullable:"false" doc:"Windows without attempts, such as sat,sun 22:00-06:00"`
	TimeZone    string   `json:"time_zone,omitempty" doc:"Time zone of hours and windows; none: UTC"`
	GiveUpAfter float64  `json:"give_up_after_seconds,omitempty" doc:"Seconds after the first failure from which on there is no attempt"`
}

const maxDelays = 100 // of a Schedule

// schedules returns the schedule of the policy itself, then the schedules of its classes by
// name, for messages that fail now.
func schedules(policy *retry.Policy, now time.Time) []Schedule {
	if policy == nil {
		return nil
	}
	list := []Schedule{schedule("", policy.ForClass(""), now)}
	for _, class := range slices.Sorted(maps.Keys(policy.Classes)) {
		list = append(list, schedule(class, policy.ForClass(class), now))
	}
	return list
}

func schedule(class string, policy retry.Policy, now time.Time) Schedule {
	s := Schedule{
		Class: class, Attempts: policy.MaxAttempts(), Delays: []float64{}, Jitter: policy.Jitter,
		At: policy.At, TimeZone: policy.TimeZone, GiveUpAfter: policy.GiveUpAfter.Seconds(),
	}
	for _, window := range policy.NoAttempts {
		s.NoAttempts = append(s.NoAttempts, window.String())
	}
	due := now
	for attempt := 1; attempt < s.Attempts; attempt++ {
		next := policy.Count(retry.Failure{Err: errors.New("any"), Attempt: attempt, First: now, Now: due}, nil)
		if next.Action == retry.Poison {
			s.Attempts = attempt
			break
		}
		if due = due.Add(next.Delay); len(s.Delays) < maxDelays {
			s.Delays = append(s.Delays, next.Delay.Seconds())
		}
	}
	s.Total = due.Sub(now).Seconds()
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
