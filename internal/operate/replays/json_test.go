package replays

import (
	"testing"
	"time"

	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/replayer/edit"
)

// JSON has a member for what is removed, and a job for what is dropped.
func TestReplyToIsRemovedUnlessItIsKept(t *testing.T) {
	for drop, keep := range map[bool]bool{true: false, false: true} {
		if got := ChangesOf(replayer.Job{DropReplyTo: drop}).KeepReplyTo; got != keep {
			t.Errorf("dropped: %t, kept: %t", drop, got)
		}
	}
}

func TestAllHeadersAreRemovedOnRequest(t *testing.T) {
	if !(Changes{ClearHeaders: true}).Edits().Clear || (Changes{RemoveHeaders: []string{"a"}}).Edits().Clear {
		t.Error("headers are removed that stay, or stay that are removed")
	}
}

func TestAnExchangeMayKeepTheRoutingKey(t *testing.T) {
	key := "order.created"
	for name, want := range map[string]*string{"its own": nil, "another": &key} {
		target := replayer.Target{Kind: replayer.ToExchange, Exchange: "shop", Key: want}
		if got := TargetOf(target).Replayer(); got.Key != want || got.Exchange != "shop" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAJobWithoutChangesHasNone(t *testing.T) {
	got := ChangesOf(replayer.Job{DropReplyTo: true})
	if len(got.SetHeaders)+len(got.RemoveHeaders)+len(got.KeepHeaders)+len(got.SetProperties)+len(got.RemoveProperties) > 0 || got.ClearHeaders || got.KeepReplyTo {
		t.Errorf("%+v", got)
	}
}

func TestAJobWithoutFailuresHasNoneInJSON(t *testing.T) {
	if got := NewJob(replayer.Job{Changes: edit.Changes{}, Created: time.Now()}); len(got.Failures) > 0 {
		t.Errorf("%+v", got.Failures)
	}
}
