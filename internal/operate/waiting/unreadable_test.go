package waiting

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/storetest"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/schemas"
)

// damaged is a store in which a document that cannot be read comes before all others.
type damaged struct{ system.EventStore }

func (s damaged) Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return storetest.AfterUnreadable(s.EventStore.Events(ctx, selection))
}

// One document that cannot be read does not keep operators from all waiting messages.
func TestADocumentThatCannotBeRead(t *testing.T) {
	store := damaged{newStore(t, waits("a", "orders", "", time.Hour))}
	messages, _, err := Select(t.Context(), store, nil, nil, nil, at())
	if err != nil || len(messages) != 1 {
		t.Errorf("%d messages wait (%v)", len(messages), err)
	}
}
