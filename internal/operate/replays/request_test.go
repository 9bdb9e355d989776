package replays

import (
	"errors"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// A handled event may be recorded before the published one, and so only published events have
// the order of a stream.
func TestOrderOfStreamsIsOfPublishedEvents(t *testing.T) {
	byStream := replayer.Job{Order: replayer.ByStream, Target: replayer.Target{Kind: replayer.ToOrigin}}
	failed := replayer.Job{Order: replayer.ByStream, Target: replayer.Target{Kind: replayer.ToFailedQueue}}
	for _, test := range []struct {
		request Request
		limited bool
	}{
		{Request{Query: "stream.id: *", Job: byStream}, true},
		{Request{Query: "stream.id: * and action: (published or handled)", Job: byStream}, false},
		{Request{Query: "stream.id: *", Job: failed}, false},
		{Request{Query: "stream.id: *", IDs: []string{"m-1"}, Job: byStream}, false},
		{Request{Query: "stream.id: *"}, false},
	} {
		job, err := Prepare(system.NewLanguage(schemas.DocumentFormat{}), test.request)
		if err != nil {
			t.Fatal(err)
		}
		if limited := strings.HasPrefix(job.Query, `(event.action: "published"`); limited != test.limited {
			t.Errorf("%+v: %s", test.request, job.Query)
		}
	}
}

// The reason of a replay, which may be missing, has a length that the HTTP API takes, too.
func TestReasonsOfReplays(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("é", 1001): "the reason has 1001 characters: expected at most 1000", "\xff": "the reason is not UTF-8",
	} {
		_, err := Prepare(system.NewLanguage(schemas.DocumentFormat{}), Request{Job: replayer.Job{Reason: text}})
		var input system.InputError
		if !errors.As(err, &input) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
