package rule_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/storetest"
	"github.com/watershipmq/watership/internal/operate/alerts/rule"
	"github.com/watershipmq/watership/schemas"
)

// damaged is a store in which a document that cannot be read comes before all others.
type damaged struct{ rule.Store }

func (s damaged) Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return storetest.AfterUnreadable(s.Store.Events(ctx, selection))
}

// One document that cannot be read, as of a newer version, ends no rule.
func TestADocumentThatCannotBeRead(t *testing.T) {
	r := newRig(t)
	r.system.Store = damaged{r.store}
	fresh, gap := r.rule("on: new_group"), r.rule("on: gap, within: 10m")
	r.expect(fresh())
	r.event(schemas.Poisoned, "orders", "m1", "no stock", func(e *schemas.Event) { e.Failure.Group = e.Failure.FormerErrorGroup(e.Queue) })
	r.expect(fresh(), "new failures in queue orders: no stock")
	r.event(schemas.Dropped, "watership.index", "", "", func(e *schemas.Event) {
		e.Time, e.Failure = time.Now(), schemas.Failure{Type: "gap", Message: "about 12 messages are not recorded"}
	})
	r.expect(gap(), "a gap in the record: about 12 messages are not recorded")
}
