package history

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/eventstore/storetest"
	"github.com/watershipmq/watership/schemas"
)

// damaged is a store in which a document that cannot be read comes before all others.
type damaged struct{ *sqlite.Store }

func (s damaged) Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return storetest.AfterUnreadable(s.Store.Events(ctx, selection))
}

// followed counts what a Follow passes, and ends it.
type followed struct {
	events, unreadable int
	stop               context.CancelFunc
}

func (f *followed) Receive(schemas.Event) error { f.events++; return nil }
func (f *followed) Flush() error                { f.stop(); return nil }
func (f *followed) Unreadable(error)            { f.unreadable++ }
func (f *followed) Unavailable(error)           {}

// One document that cannot be read hides no others.
func TestADocumentThatCannotBeRead(t *testing.T) {
	e := schemas.Event{Action: schemas.Published, Sequence: 1}
	e.EventID, e.Time, e.Fingerprint = "event", time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC), "v1:a"
	e.Envelope.Properties.MessageID = "m-1"
	store := damaged{filledStore(t, []schemas.Event{e})}
	if found, err := Find(t.Context(), store, "m-1"); err != nil || len(found.List) != 1 || len(found.List[0].Events) != 1 {
		t.Errorf("its life: %+v (%v)", found, err)
	}
	if found, err := FindConversation(t.Context(), store, "m-1", ""); err != nil || len(found.Messages) != 1 {
		t.Errorf("its conversation: %+v (%v)", found, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	to := &followed{stop: stop}
	if err := Follow(ctx, store, eventstore.Selection{}, 5, to); err != nil || to.events != 1 || to.unreadable == 0 {
		t.Errorf("the newest: %+v (%v)", to, err)
	}
}
