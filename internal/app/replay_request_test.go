package app

import (
	"strings"
	"testing"

	"github.com/watershipmq/watership/replayer"
)

// A handled event may be recorded before the published one, and so only published events have
// the order of a stream.
func TestOrderOfStreamsIsOfPublishedEvents(t *testing.T) {
	a := newTestApp(t)
	byStream := replayer.Job{Order: replayer.ByStream, Target: replayer.Target{Kind: replayer.ToOrigin}}
	failed := replayer.Job{Order: replayer.ByStream, Target: replayer.Target{Kind: replayer.ToFailedQueue}}
	for _, test := range []struct {
		request ReplayRequest
		limited bool
	}{
		{ReplayRequest{Query: "stream.id: *", Job: byStream}, true},
		{ReplayRequest{Query: "stream.id: * and action: (published or handled)", Job: byStream}, false},
		{ReplayRequest{Query: "stream.id: *", Job: failed}, false},
		{ReplayRequest{Query: "stream.id: *", IDs: []string{"m-1"}, Job: byStream}, false},
		{ReplayRequest{Query: "stream.id: *"}, false},
	} {
		job, err := a.ReplayJob(test.request)
		if err != nil {
			t.Fatal(err)
		}
		if limited := strings.HasPrefix(job.Query, `(event.action: "published"`); limited != test.limited {
			t.Errorf("%+v: %s", test.request, job.Query)
		}
	}
}
