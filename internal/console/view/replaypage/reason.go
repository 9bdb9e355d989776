package replaypage

import (
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/replayer"
)

// LeftOutText returns why a plan leaves events out, and the choice of the form that includes them.
func LeftOutText(reason replayer.Reason) string {
	text := replays.ReasonText(reason)
	switch replays.IncludedBy(reason) {
	case replays.ByAgain:
		return text + " (“Again” sends them too)"
	case replays.ByQueue:
		return text + " (“Another queue” sends it elsewhere)"
	case replays.ByFailedQueue:
		return text + " (“Only the queue that failed” sends it)"
	}
	return text
}
