package subscription_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

// The body of a new event may be stored after the event, since the indexer of `published` events is another
// one: the event waits for it, and those behind it do, too. An old event does not.
func TestABodyThatComesLater(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	store := func(e schemas.Event) {
		if _, err := r.store.Create(t.Context(), []schemas.Document{schemas.DocumentFormat{}.Document(e)}); err != nil {
			t.Fatal(err)
		}
	}
	old, later := handledEvents("old", time.Now().Add(-time.Hour)), handledEvents("new", time.Now())
	store(old.handled)
	store(later.handled)
	s := subscription.New(r.cfg)
	sub := toHandler("orders")
	sub.Query = "event.action: handled"
	r.create(t, s, sub)
	var got positions
	r.run(t, s, "orders", func(_ context.Context, d subscription.Delivery) error {
		if string(d.Event.Envelope.Body) != "new" {
			t.Errorf("delivered %+v", d.Event)
		}
		got.add(d.Position.Sequence)
		return nil
	})
	rabbittest.Eventually(t, "it waits for the body", func() bool {
		return get(t, s, "orders").Checkpoint.Waiting == subscription.BodyPending
	})
	store(later.published)
	rabbittest.Eventually(t, "it is delivered", func() bool { return len(got.list()) == 1 })
	parked, err := s.Parked(t.Context(), "orders")
	if err != nil || len(parked) != 1 || parked[0].EventID != "handled-old" {
		t.Errorf("parked %+v, %v", parked, err)
	}
}

// looks is a store that notes how many events each look for new events reads.
type looks struct {
	*sqlite.Store

	mu    sync.Mutex // guards sizes
	sizes []int
}

func (l *looks) list() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.sizes)
}

func (l *looks) Events(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error] {
	if sel.Order != eventstore.BySequence || sel.UpTo == 0 {
		return l.Store.Events(ctx, sel)
	}
	return func(yield func(schemas.Event, error) bool) {
		n := 0
		for e, err := range l.Store.Events(ctx, sel) {
			n++
			if !yield(e, err) {
				break
			}
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.sizes = append(l.sizes, n)
	}
}

// A subscription may wait for a body for a quarter of an hour. It then asks again and again, but only for the event that
// waits, and not for those behind it.
func TestWaitingForABodyReadsOneEvent(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	const stored = 5
	for i := range stored {
		e := handledEvents(fmt.Sprint("new", i), time.Now().Add(time.Duration(i)*time.Millisecond)).handled
		if _, err := r.store.Create(t.Context(), []schemas.Document{schemas.DocumentFormat{}.Document(e)}); err != nil {
			t.Fatal(err)
		}
	}
	store := &looks{Store: r.store}
	r.cfg.Store, r.cfg.Interval = store, time.Hour // a session reads once
	s := subscription.New(r.cfg)
	sub := toHandler("orders")
	sub.Query = "event.action: handled"
	r.create(t, s, sub)
	r.run(t, s, "orders", func(context.Context, subscription.Delivery) error { return nil })
	rabbittest.Eventually(t, "three sessions have read", func() bool { return len(store.list()) >= 3 })
	if sizes := store.list()[:3]; !slices.Equal(sizes, []int{stored, 1, 1}) {
		t.Errorf("the looks have read %d events: expected all and then one", sizes)
	}
}

type messageEvents struct{ published, handled schemas.Event }

// handledEvents returns the events of a message, of which the handled one has a time and no body.
func handledEvents(body string, at time.Time) messageEvents {
	e := schemas.Event{Action: schemas.Published, Sequence: at.UnixMicro() + 1, Source: source, VHost: "/"}
	e.Time = at.UTC()
	e.Envelope.RoutingKey, e.Envelope.Body = "orders", []byte(body)
	e.Fingerprint, e.EventID = e.Envelope.Fingerprint(), "published-"+body
	handled := e
	handled.Action, handled.Sequence, handled.EventID = schemas.Handled, at.UnixMicro(), "handled-"+body
	handled.BodyIn, handled.BodySize, handled.Envelope.Body = schemas.BodyInPublished, len(body), nil
	return messageEvents{e, handled}
}
