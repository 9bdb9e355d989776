package routes

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/storetest"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

// damaged is a store in which a document that cannot be read comes before all others.
type damaged struct{ system.EventStore }

func (s damaged) Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return storetest.AfterUnreadable(s.EventStore.Events(ctx, selection))
}

// One document that cannot be read, as of a newer version, hides no pause of a breaker and no recent message.
func TestADocumentThatCannotBeRead(t *testing.T) {
	s := newSite(t, ordersAndInvoices)
	systemtest.Record(t, s.System, breaker(schemas.Paused, "orders", time.Now()), schemas.Event{Action: schemas.Handled, State: schemas.State{Queue: "orders"}})
	store, err := s.System.Store(t.Context())
	must(t, err)
	cfg := Config{Events: damaged{store}, VHost: "/"}
	paused, err := cfg.Paused(t.Context())
	if err != nil || paused["orders"].Action != schemas.Paused {
		t.Errorf("paused: %+v (%v)", paused, err)
	}
	if events, err := cfg.newest(t.Context(), "orders", schemas.Handled); err != nil || len(events) != 1 {
		t.Errorf("recent: %d events (%v)", len(events), err)
	}
}
