package cli

import (
	"fmt"
	"strings"

	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/replayer/shadow"
)

// leftOutText returns why a plan leaves events out, and the flag that includes them.
func leftOutText(reason replayer.Reason, plan replayer.Plan) string {
	text := replays.ReasonText(reason)
	switch reason {
	case replayer.OtherJobSending:
		return rivalText(plan, true, "is sending them now", "are sending them now")
	case replayer.OtherJobUnknown:
		return rivalText(plan, false, "has taken them", "have taken them") + ", and the store does not know yet which were sent"
	}
	switch replays.IncludedBy(reason) {
	case replays.ByAgain:
		return text + " (--again sends them too)"
	case replays.ByQueue:
		return text + " (--to-queue sends it elsewhere)"
	case replays.ByFailedQueue:
		return text + " (--to-failed-queue sends it)"
	}
	return text
}

// rivalText names the other jobs that have messages of a plan.
func rivalText(plan replayer.Plan, running bool, one, several string) string {
	var jobs []string
	for _, rival := range plan.Rivals {
		if rival.Running == running {
			jobs = append(jobs, rival.Job.ID)
		}
	}
	if len(jobs) == 1 {
		return fmt.Sprintf("job %s %s", jobs[0], one)
	}
	return fmt.Sprintf("jobs %s %s", strings.Join(jobs, ", "), several)
}

// notComparedText returns why a shadow replay leaves messages out.
func notComparedText(reason shadow.Reason) string {
	switch reason {
	case shadow.NoOutcome:
		return "no queue has reported about it"
	case shadow.Unreadable:
		return "its document cannot be read"
	case shadow.NoBody:
		return "its body is not in the store"
	case shadow.Redacted:
		return "it is redacted"
	}
	return string(reason)
}
