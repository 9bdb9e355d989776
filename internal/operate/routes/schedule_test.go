package routes

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/retry"
)

// midnight is a time from which hours of the day are easy to count.
func midnight() time.Time { return time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC) }

func TestSchedules(t *testing.T) {
	for name, test := range map[string]struct {
		policy retry.Policy
		want   Schedule
	}{
		"listed delays": {
			retry.Policy{Delays: []time.Duration{time.Second, time.Minute}}, Schedule{Attempts: 3, Delays: []float64{1, 60}, Total: 61},
		},
		"growing delays": {
			retry.Policy{First: time.Second, Factor: 3, Cap: 5 * time.Second, Attempts: 4},
			Schedule{Attempts: 4, Delays: []float64{1, 3, 5}, Total: 9},
		},
		"hours, from one second after the full hour": {
			retry.Policy{Delays: []time.Duration{time.Minute}, At: []string{"06:00"}},
			Schedule{Attempts: 3, Delays: []float64{60, 6*3600 - 60 + 1}, Total: 6*3600 + 1, At: []string{"06:00"}},
		},
		"given up earlier": {
			retry.Policy{Delays: []time.Duration{time.Minute, time.Hour, time.Hour}, GiveUpAfter: 90 * time.Minute},
			Schedule{Attempts: 3, Delays: []float64{60, 3600}, Total: 3660, GiveUpAfter: 5400},
		},
		"jitter": {
			retry.Policy{Delays: []time.Duration{time.Second}, Jitter: 0.5}, Schedule{Attempts: 2, Delays: []float64{1}, Total: 1, Jitter: 0.5},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := schedules(&test.policy, midnight())
			if diff := cmp.Diff([]Schedule{test.want}, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestSchedulesOfClassesAreSorted(t *testing.T) {
	policy := retry.Policy{Delays: []time.Duration{time.Second}, Classes: map[string]retry.Policy{
		"timeout": {Delays: []time.Duration{time.Minute, time.Minute}}, "bug": {},
	}}
	list := schedules(&policy, midnight())
	var classes []string
	for _, s := range list {
		classes = append(classes, s.Class)
	}
	if diff := cmp.Diff([]string{"", "bug", "timeout"}, classes); diff != "" {
		t.Error(diff)
	}
	for class, want := range map[string]int{"": 2, "timeout": 3, "another": 2} {
		if got := attemptsOf(list, class); got != want {
			t.Errorf("class %q has %d attempts, want %d", class, got, want)
		}
	}
}

func TestAPolicyThatIsNotKnownHasNoSchedule(t *testing.T) {
	if got := schedules(nil, midnight()); got != nil {
		t.Errorf("%+v", got)
	}
	if got := attemptsOf(nil, "any"); got != 0 {
		t.Errorf("%d attempts", got)
	}
}

func TestTheDelaysOfASchedule(t *testing.T) {
	policy := retry.Policy{First: time.Second, Factor: 1, Attempts: 500}
	got := schedules(&policy, midnight())[0]
	if len(got.Delays) != maxDelays || got.Attempts != 500 || got.Total != 499 {
		t.Errorf("%d delays, %d attempts in %g s", len(got.Delays), got.Attempts, got.Total)
	}
}
