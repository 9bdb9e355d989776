package history

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/sqlite"
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

// longLife counts the reads of events from a store in which one message has very many.
type longLife struct {
	*sqlite.Store
	fingerprint string
	reads       *int
}

func (s longLife) Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error] {
	*s.reads++
	return func(yield func(schemas.Event, error) bool) {
		for e, err := range s.Store.Events(ctx, selection) {
			times := 1
			if e.Fingerprint == s.fingerprint {
				times = selection.Limit
			}
			for range times {
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

// A message with very many events is read alone, and the others are still read at once.
func TestLivesBesideAVeryLongOne(t *testing.T) {
	s := newStreamEvents(24 * time.Hour)
	var fingerprints []string
	for n := range 100 {
		name := fmt.Sprint("m-", n)
		s.add(schemas.Published, name, -1)
		s.add(schemas.Handled, name, -1)
		fingerprints = append(fingerprints, "v1:"+name)
	}
	reads := 0
	lives, err := livesReader{longLife{filledStore(t, s.list), "v1:m-37", &reads}}.lives(t.Context(), fingerprints)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range lives {
		want := 2
		if i == 37 {
			want = MaxEvents
		}
		if len(l.Events) != want || l.Events[0].Fingerprint != fingerprints[i] || l.More != (i == 37) {
			t.Errorf("%s has %d events, more: %t", fingerprints[i], len(l.Events), l.More)
		}
	}
	if reads > 20 {
		t.Errorf("%d messages need %d reads", len(fingerprints), reads)
	}
}
