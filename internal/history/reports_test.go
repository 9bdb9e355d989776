package history

import (
	"context"
	"testing"

	"github.com/watershipmq/watership/schemas"
)

// A job waits for each queue that reported before, until it is deleted.
func TestAQueueIsDeletedBeforeItReports(t *testing.T) {
	store := filledStore(t, []schemas.Event{
		event(1, schemas.Published, sameMessage(1)), event(2, schemas.Handled, sameMessage(1), at("orders")), event(3, schemas.Handled, sameMessage(1), at("mails")),
		event(4, schemas.Handled, sameMessage(1), at("orders"), replayOf(1)),
	})
	exists := true
	reports := NewReports(store, Job{ID: "job", UpTo: 3, ToOrigin: true}, func(_ context.Context, queue string) (bool, error) {
		if queue != "mails" {
			t.Errorf("queue %s was looked at, which has reported", queue)
		}
		return exists, nil
	})
	sent := []SentMessage{{EventID: "test:1", Fingerprint: event(1, schemas.Published, sameMessage(1)).Fingerprint}}
	for _, exists = range []bool{true, false} {
		read, err := reports.Read(t.Context(), sent)
		if err != nil {
			t.Fatal(err)
		}
		if report := read["test:1"]; report.Reported == exists || report.Final == exists {
			t.Errorf("while the other queue exists (%t): %+v", exists, report)
		}
	}
}
