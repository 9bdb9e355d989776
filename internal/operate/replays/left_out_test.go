package replays

import (
	"strings"
	"testing"

	"github.com/watershipmq/watership/replayer"
)

func TestEachReasonHasWordsOfItsOwn(t *testing.T) {
	known := map[string]replayer.Reason{}
	for _, reason := range replayer.Reasons() {
		text := ReasonText(reason)
		if other, is := known[text]; is || text == string(reason) {
			t.Errorf("%s is %q, as %s is", reason, text, other)
		}
		known[text] = reason
	}
}

func TestAReasonOfALaterReleaseIsShownAsItIs(t *testing.T) {
	if got := ReasonText("eclipse"); got != "eclipse" || IncludedBy("eclipse") != ByNone {
		t.Errorf("%q, %d", got, IncludedBy("eclipse"))
	}
}

// What was resolved is sent again on request, and what cannot be sent to a place is sent to another.
func TestOptionsThatIncludeWhatIsLeftOut(t *testing.T) {
	for reason, want := range map[replayer.Reason]Option{
		replayer.AlreadyReplayed: ByAgain, replayer.HandledSince: ByAgain, replayer.DiscardedSince: ByAgain, replayer.RetryScheduled: ByAgain,
		replayer.OtherJobSending: ByAgain, replayer.OtherJobUnknown: ByAgain, replayer.OwnTarget: ByQueue, replayer.OriginClaimed: ByFailedQueue,
		replayer.SameMessage: ByNone, replayer.BeyondLimit: ByNone, replayer.FilteredOut: ByNone, replayer.NoQueueFailed: ByNone,
	} {
		if got := IncludedBy(reason); got != want {
			t.Errorf("%s: %d, want %d", reason, got, want)
		}
	}
}

// Who reads docs/openapi.json learns of each reason, and how to send these events too.
func TestEachReasonIsDescribed(t *testing.T) {
	schema := LeftOut{}.Schema(nil)
	for _, reason := range replayer.Reasons() {
		if member := schema.Properties[string(reason)]; member == nil || !strings.HasPrefix(strings.ToLower(member.Description), strings.ToLower(ReasonText(reason))) {
			t.Errorf("%s: %+v", reason, member)
		}
	}
	for reason, want := range map[replayer.Reason]string{
		replayer.AlreadyReplayed: "Already replayed; again sends them too",
		replayer.OwnTarget:       "The place to send it to is Watership's own; the targets queue and exchange send them elsewhere",
		replayer.OriginClaimed:   "Published, as its consumer says, where no tap saw it; the target failed_queue sends them",
		replayer.BeyondLimit:     "Beyond the limit",
	} {
		if got := schema.Properties[string(reason)].Description; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
