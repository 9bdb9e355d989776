package replays

import (
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/watershipmq/watership/replayer"
)

// LeftOut has the numbers of events that a plan leaves out.
type LeftOut map[replayer.Reason]int

// Schema implements huma.SchemaProvider: each reason is a member.
func (LeftOut) Schema(huma.Registry) *huma.Schema {
	members := map[string]*huma.Schema{}
	for _, reason := range replayer.Reasons() {
		description := ReasonText(reason)
		switch IncludedBy(reason) {
		case ByAgain:
			description += "; again sends them too"
		case ByQueue:
			description += "; the targets queue and exchange send them elsewhere"
		case ByFailedQueue:
			description += "; the target failed_queue sends them"
		}
		members[string(reason)] = &huma.Schema{Type: huma.TypeInteger, Description: strings.ToUpper(description[:1]) + description[1:]}
	}
	return &huma.Schema{Type: huma.TypeObject, Properties: members}
}

// Option is a choice of a replay that includes events which it leaves out otherwise. Each face has
// its own name for it.
type Option int

// The options.
const (
	ByNone        Option = iota
	ByAgain              // send messages again
	ByQueue              // another target
	ByFailedQueue        // the target is the queue that failed
)

// IncludedBy returns the option that includes events which are left out for a reason.
func IncludedBy(reason replayer.Reason) Option {
	switch reason {
	case replayer.AlreadyReplayed, replayer.HandledSince, replayer.DiscardedSince, replayer.RetryScheduled, replayer.OtherJobSending, replayer.OtherJobUnknown:
		return ByAgain
	case replayer.OwnTarget:
		return ByQueue
	case replayer.OriginClaimed:
		return ByFailedQueue
	}
	return ByNone
}

// ReasonText returns a reason in words, without the option that includes the events: that has
// another name in each face. A reason that this release does not know comes from a later one.
func ReasonText(reason replayer.Reason) string {
	switch reason {
	case replayer.SameMessage:
		return "another event of the same message"
	case replayer.NoQueueFailed:
		return "no queue failed: the event is not about a failure"
	case replayer.QuarantinedRecord:
		return "quarantined, and not about a message that can be sent"
	case replayer.NotAboutMessage:
		return "about the record or a route, not about a message"
	case replayer.OwnTarget:
		return "the place to send it to is Watership's own"
	case replayer.OriginClaimed:
		return "published, as its consumer says, where no tap saw it"
	case replayer.Unreadable:
		return "the document cannot be read"
	case replayer.AlreadyReplayed:
		return "already replayed"
	case replayer.HandledSince:
		return "failed and handled since"
	case replayer.DiscardedSince:
		return "failed and discarded since"
	case replayer.RetryScheduled:
		return "failed and tried again soon"
	case replayer.OtherJobSending:
		return "another job is sending them now"
	case replayer.OtherJobUnknown:
		return "another job has taken them, and the store does not know yet which it has sent"
	case replayer.ReplayedSincePlan:
		return "replayed by another job since"
	case replayer.ResolvedSincePlan:
		return "handled or discarded since"
	case replayer.FilteredOut:
		return "by the transform"
	case replayer.BeyondLimit:
		return "beyond the limit"
	}
	return string(reason)
}
