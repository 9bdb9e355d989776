package failures

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/eventstore/storetest"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

// damaged is a store in which a document that cannot be read comes before all others.
type damaged struct{ *sqlite.Store }

func (s damaged) Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return storetest.AfterUnreadable(s.Store.Events(ctx, selection))
}

// One decision that cannot be read, as of a newer version, hides no failures and no other decisions.
func TestADecisionThatCannotBeRead(t *testing.T) {
	now := time.Now()
	store := systemtest.Store(t)
	e := schemas.Event{Action: schemas.Triaged, Sequence: 1, Source: "shop", State: Change{Decision: Assigned, Assignee: "bob"}.Event(stock(), "ada", now)}
	if _, err := store.Create(t.Context(), []schemas.Document{schemas.DocumentFormat{}.Document(e)}); err != nil {
		t.Fatal(err)
	}
	states, err := Read(t.Context(), damaged{store}, kql.All{}, now)
	if err != nil || states.Of(stock()).Assignee != "bob" {
		t.Errorf("%+v (%v)", states, err)
	}
}
