package cli

import (
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/replayer"
)

// Messages that were not sent are counted apart from those without a report.
func TestOutcomesOfAReplay(t *testing.T) {
	for _, test := range []struct {
		job      replayer.Job
		outcomes replays.Outcomes
		want     string
	}{
		{replayer.Job{State: replayer.Paused, Failed: 2}, replays.Outcomes{}, "of the first 2 messages: 0 handled, 0 failed, 0 not reported, 2 not sent\n"},
		{
			replayer.Job{State: replayer.Paused, Sent: 4, Skipped: 1},
			replays.Outcomes{Handled: 2, Failed: 1, Problems: []string{"timed out"}, NotReported: []string{"orders", "mails"}},
			"of the first 5 messages: 2 handled, 1 failed, 1 not reported, 1 not sent\n  timed out\n  no report yet from orders, mails\n",
		},
		{replayer.Job{State: replayer.Done, Sent: 1}, replays.Outcomes{Handled: 1}, "of 1 message: 1 handled, 0 failed, 0 not reported\n"},
	} {
		var out strings.Builder
		if printOutcomes(&out, test.outcomes, test.job); out.String() != test.want {
			t.Errorf("%s, want %s", out.String(), test.want)
		}
	}
}
