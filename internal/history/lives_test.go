package history

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// Clients without message ids know the correlation id, such as the id of a task of Celery.
func TestCorrelationIDIsNamed(t *testing.T) {
	e := schemas.Event{Action: schemas.Published, Sequence: 1}
	e.EventID, e.Time, e.Fingerprint = "event", time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC), "v1:a"
	e.Envelope.Properties.CorrelationID = "task-7"
	store := filledStore(t, []schemas.Event{e})
	for id, correlates := range map[string]bool{"task-7": true, "task-8": false} {
		_, err := Find(t.Context(), store, id)
		var missing *NotFoundError
		if !errors.As(err, &missing) || missing.Correlates != correlates || strings.Contains(err.Error(), `conversation_id: "`+id+`"`) != correlates {
			t.Errorf("%s: %v", id, err)
		}
	}
}
