package cli

import (
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// TestReplayTooLarge: a message whose headers fill a frame has no room for one
// more. It is counted and named, and the others arrive.
func TestReplayTooLarge(t *testing.T) { played(t, testReplayTooLarge) }

func testReplayTooLarge(t *testing.T, a *playback) {
	before, large, after := a.event(schemas.Published, 1), a.event(schemas.Published, 2), a.event(schemas.Published, 3)
	large.Envelope.Headers = amqp.Table{}
	for n := range 4 {
		large.Envelope.Headers[fmt.Sprint("h", n)] = strings.Repeat("x", 32_740)
	}
	large.Fingerprint = large.Envelope.Fingerprint()
	a.keep(before, large, after)
	const reason = "properties and headers need a frame of "
	servertest.WantRun(t, a.Run(t, "replay", "*", "--yes", "--set-header", "note="+strings.Repeat("n", 200)), exitFailed,
		"not sent: message m-2, event "+large.EventID, reason, "sent 2 of 3", "1 message could not be sent")
	job := onlyJob(t, a.Installation)
	if job.State != replayer.Done || job.Sent != 2 || job.Failed != 1 || len(job.Failures) != 1 || job.Failures[0].Message != "m-2" {
		t.Errorf("the job is %s, sent %d, failed %d: %v", job.State, job.Sent, job.Failed, job.Failures)
	}
	servertest.WantRun(t, a.Run(t, "jobs", "show", job.ID), 0, "sent         2", "failed       1", "message m-2, event "+large.EventID, reason)
	for i, d := range a.Broker.Take(t, a.Queue, 2) {
		if want := fmt.Sprint("m-", 2*i+1); d.MessageId != want {
			t.Errorf("%s arrived, want %s", d.MessageId, want)
		}
	}
}
