package subscription_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

// storeInStreams stores a published event for each stream, from a sequence on.
func storeInStreams(t *testing.T, store *sqlite.Store, first int64, streams ...string) {
	t.Helper()
	var documents []schemas.Document
	for i, stream := range streams {
		n := first + int64(i)
		e := schemas.Event{Action: schemas.Published, Sequence: n, Source: source, VHost: "/"}
		e.EventID, e.Time = fmt.Sprintf("shop-%d", n), time.UnixMicro(n).UTC()
		e.Envelope = schemas.Envelope{RoutingKey: fmt.Sprintf("key-%d", n), Body: []byte("{}")}
		e.Fingerprint = e.Envelope.Fingerprint()
		e.Stream.ID = stream
		documents = append(documents, schemas.DocumentFormat{}.Document(e))
	}
	if _, err := store.Create(t.Context(), documents); err != nil {
		t.Fatal(err)
	}
}

// rounds lets calls return when as many wait.
type rounds struct {
	size int

	mu      sync.Mutex
	waiting int
	most    int
	round   chan struct{}
}

func (r *rounds) wait(ctx context.Context) error {
	r.mu.Lock()
	if r.round == nil {
		r.round = make(chan struct{})
	}
	r.waiting++
	r.most = max(r.most, r.waiting)
	round := r.round
	if r.waiting == r.size {
		r.waiting, r.round = 0, nil
		close(round)
	}
	r.mu.Unlock()
	select {
	case <-round:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Streams are delivered side by side, as many as may be at a time, and each in order: 100 events of 5 streams take as
// long as 20 calls.
func TestByStream(t *testing.T) {
	const streams, each = 5, 20
	r := newRig(t, rabbittest.Either(t))
	var ids []string
	for n := range streams * each {
		ids = append(ids, fmt.Sprint("stream-", n%streams))
	}
	storeInStreams(t, r.store, 1, ids...)
	s, sub := subscription.New(r.cfg), toHandler("orders")
	sub.By, sub.Concurrency = subscription.ByStream, streams
	r.create(t, s, sub)
	at := &rounds{size: streams}
	var got positions
	r.run(t, s, "orders", func(ctx context.Context, d subscription.Delivery) error {
		err := at.wait(ctx)
		got.add(d.Position.Sequence)
		return err
	})
	rabbittest.Eventually(t, "all are delivered", func() bool { return get(t, s, "orders").Checkpoint.Delivered == streams*each })
	last := map[int64]int64{}
	for _, n := range got.list() {
		if stream := n % streams; n <= last[stream] {
			t.Errorf("event %d of stream %d is delivered after event %d", n, stream, last[stream])
		} else {
			last[stream] = n
		}
	}
	if len(got.list()) != streams*each || at.most > streams {
		t.Errorf("%d calls, of which %d at a time", len(got.list()), at.most)
	}
}

// Events without a stream do not wait for one another.
func TestByStreamWithoutAStream(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	storeInStreams(t, r.store, 1, "", "", "")
	s, sub := subscription.New(r.cfg), toHandler("orders")
	sub.By = subscription.ByStream
	r.create(t, s, sub)
	at := &rounds{size: 3}
	r.run(t, s, "orders", func(ctx context.Context, _ subscription.Delivery) error { return at.wait(ctx) })
	rabbittest.Eventually(t, "all are delivered", func() bool { return get(t, s, "orders").Checkpoint.Delivered == 3 })
}

// parkedEvents are the numbers of the parked events with their causes.
func parkedEvents(t *testing.T, s *subscription.Subscriptions) string {
	t.Helper()
	list, err := s.Parked(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	texts := make([]string, len(list))
	for i, p := range list {
		texts[i] = fmt.Sprintf("%d %s %s", p.Position.Sequence, p.Stream, p.Cause)
	}
	return strings.Join(texts, ", ")
}

// The later events of a stream wait behind a parked one, and are delivered in order after it, or once it is dropped.
func TestParkStream(t *testing.T) {
	for _, by := range []subscription.By{"", subscription.ByStream} {
		t.Run("by "+string(by), func(t *testing.T) { testParkStream(t, by) })
	}
}

func testParkStream(t *testing.T, by subscription.By) {
	r := newRig(t, rabbittest.Either(t))
	storeInStreams(t, r.store, 1, "a", "a", "b", "a", "", "b", "a")
	s, sub := subscription.New(r.cfg), toHandler("orders")
	sub.OnPoison, sub.By = subscription.ParkStream, by
	r.create(t, s, sub)
	var got positions
	var poison atomic.Int64
	poison.Store(2)
	r.run(t, s, "orders", func(_ context.Context, d subscription.Delivery) error {
		if d.Position.Sequence == poison.Load() {
			return retry.Permanent(errors.New("no such order"))
		}
		got.add(d.Position.Sequence)
		return nil
	})
	delivered := func(want ...int64) func() bool {
		return func() bool { list := got.list(); slices.Sort(list); return slices.Equal(list, want) }
	}
	rabbittest.Eventually(t, "the other streams are delivered", delivered(1, 3, 5, 6))
	rabbittest.Eventually(t, "the stream is parked", func() bool {
		return parkedEvents(t, s) == "2 a target_error, 4 a stream_held, 7 a stream_held"
	})
	poison.Store(4)
	if n, err := s.RetryParked(t.Context(), "orders", "ada", []string{"2:shop-2"}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	rabbittest.Eventually(t, "the next one is poison", func() bool { return parkedEvents(t, s) == "4 a target_error, 7 a stream_held" })
	storeInStreams(t, r.store, 8, "a", "b")
	rabbittest.Eventually(t, "a new event waits behind it", func() bool {
		return parkedEvents(t, s) == "4 a target_error, 7 a stream_held, 8 a stream_held"
	})
	if n, err := s.Drop(t.Context(), "orders", []string{"4:shop-4"}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	rabbittest.Eventually(t, "the rest is delivered", func() bool { return parkedEvents(t, s) == "" && len(got.list()) == 8 })
	if list := slices.DeleteFunc(got.list(), func(n int64) bool { return n == 3 || n == 5 || n == 6 || n == 9 }); !slices.Equal(list, []int64{1, 2, 7, 8}) {
		t.Errorf("the stream was delivered as %v", list)
	}
}

// A queue does not get what is behind a parked message in its stream either.
func TestParkStreamOfAQueue(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	storeInStreams(t, r.store, 1, "a")
	lost := schemas.Event{Action: schemas.Handled, Sequence: 2, Source: source, VHost: "/", BodyIn: schemas.BodyInPublished}
	lost.EventID, lost.Fingerprint, lost.Queue, lost.Stream.ID, lost.Time = "shop-2", "v1:lost", "elsewhere", "a", time.UnixMicro(2).UTC()
	if _, err := r.store.Create(t.Context(), []schemas.Document{schemas.DocumentFormat{}.Document(lost)}); err != nil {
		t.Fatal(err)
	}
	storeInStreams(t, r.store, 3, "a", "b", "a")
	s, queue := subscription.New(r.cfg), r.broker.Queue(t, nil)
	sub := toQueue("orders", queue)
	sub.OnPoison, sub.Query = subscription.ParkStream, "event.action: (published or handled)"
	r.create(t, s, sub)
	r.serve(t, s)
	for i, want := range []int64{1, 4} {
		if got := positionOf(t, r.broker.Take(t, queue, 1)[0]); got != want {
			t.Errorf("delivery %d is of event %d", i, got)
		}
	}
	rabbittest.Eventually(t, "the stream is parked", func() bool {
		return parkedEvents(t, s) == "2 a body_missing, 3 a stream_held, 5 a stream_held"
	})
	if _, err := s.Drop(t.Context(), "orders", []string{"2:shop-2"}); err != nil {
		t.Fatal(err)
	}
	for i, d := range r.broker.Take(t, queue, 2) {
		if got := positionOf(t, d); got != []int64{3, 5}[i] {
			t.Errorf("delivery %d is of event %d", i, got)
		}
	}
}

// A subscription that stops delivers nothing behind the poison message in its stream.
func TestStopByStream(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	storeInStreams(t, r.store, 1, "a", "a", "b")
	s, sub := subscription.New(r.cfg), toHandler("orders")
	sub.OnPoison, sub.By = subscription.Stop, subscription.ByStream
	r.create(t, s, sub)
	var got positions
	r.run(t, s, "orders", func(_ context.Context, d subscription.Delivery) error {
		got.add(d.Position.Sequence)
		if d.Position.Sequence == 1 {
			return retry.Permanent(errors.New("no such order"))
		}
		return nil
	})
	rabbittest.Eventually(t, "it stops", func() bool { return get(t, s, "orders").State == subscription.Stopped })
	if c := get(t, s, "orders").Checkpoint; slices.Contains(got.list(), 2) || c.Position.Sequence != 0 {
		t.Errorf("calls %v, position %v", got.list(), c.Position)
	}
}

func TestMistakesOfByStream(t *testing.T) {
	r := newRig(t, rabbittest.Embedded(t))
	s := subscription.New(r.cfg)
	for want, change := range map[string]func(*subscription.Subscription){
		`deliveries by "queue"`:  func(sub *subscription.Subscription) { sub.By = "queue" },
		"201 calls at a time":    func(sub *subscription.Subscription) { sub.By, sub.Concurrency = subscription.ByStream, 201 },
		"expected deliveries by": func(sub *subscription.Subscription) { sub.Concurrency = 2 },
		"gets all events in order": func(sub *subscription.Subscription) {
			*sub = toQueue("orders", "orders")
			sub.By = subscription.ByStream
		},
		"expected park, park-stream ": func(sub *subscription.Subscription) { sub.OnPoison = "keep" },
	} {
		sub := toHandler("orders")
		change(&sub)
		var mistake *subscription.Error
		if _, err := s.Create(t.Context(), sub, subscription.From{}); !errors.As(err, &mistake) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
