package subscription_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

func toQueue(name, queue string) subscription.Subscription {
	return subscription.Subscription{Name: name, Target: subscription.Target{Kind: subscription.ToQueue, Queue: queue}}
}

func toHandler(name string) subscription.Subscription {
	return subscription.Subscription{Name: name, Target: subscription.Target{Kind: subscription.ToHandler}}
}

// A queue gets what is stored, and then each new event, in order and with its position.
func TestToAQueue(t *testing.T) {
	rabbittest.WithPolicies(t, func(t *testing.T, b rabbittest.Broker) {
		r := newRig(t, b)
		storeEvents(t, r.store, source, numbers(1, 500)...)
		s, queue := subscription.New(r.cfg), r.broker.Queue(t, nil)
		r.create(t, s, toQueue("orders", queue))
		r.serve(t, s)
		var got []int64
		for _, d := range r.broker.Take(t, queue, 500) {
			got = append(got, positionOf(t, d))
		}
		storeEvents(t, r.store, source, numbers(501, 510)...)
		live := r.broker.Take(t, queue, 10)
		for _, d := range live {
			got = append(got, positionOf(t, d))
		}
		if !slices.Equal(got, numbers(1, 510)) {
			t.Errorf("got %v", got)
		}
		h := live[9].Headers
		if h[subscription.NameHeader] != "orders" || h[subscription.PositionHeader] != "510:shop-510" || h[subscription.ActionHeader] != "published" ||
			h["watership-queue"] != queue || h["watership-replay"] != nil || live[9].Exchange != (schemas.Topology{}).Return() || string(live[9].Body) != "{}" {
			t.Errorf("the last delivery came by %s with %v and %s", live[9].Exchange, h, live[9].Body)
		}
		rabbittest.Eventually(t, "the checkpoint is saved", func() bool {
			c := get(t, s, "orders").Checkpoint
			return c.Delivered == 510 && c.CaughtUp
		})
		if n := r.broker.Len(t, (schemas.Topology{}).Log()); n != 0 {
			t.Errorf("%d events about the deliveries", n)
		}
	})
}

// Another process continues after the checkpoint, and repeats nothing after an orderly stop.
func TestAnotherProcessContinues(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	storeEvents(t, r.store, source, numbers(1, 300)...)
	queue := r.broker.Queue(t, nil)
	first := subscription.New(r.cfg)
	r.create(t, first, toQueue("orders", queue))
	stop := r.serve(t, first)
	taken := r.broker.Take(t, queue, 300)
	stop()
	storeEvents(t, r.store, source, numbers(301, 310)...)
	r.serve(t, subscription.New(r.cfg))
	taken = append(taken, r.broker.Take(t, queue, 10)...)
	for i, d := range taken {
		if positionOf(t, d) != int64(i+1) {
			t.Fatalf("delivery %d has position %d", i+1, positionOf(t, d))
		}
	}
}

// Of two processes one runs the subscription. The other takes over when its connection is
// lost.
func TestOneRunnerAtATime(t *testing.T) {
	rabbittest.WithPolicies(t, func(t *testing.T, b rabbittest.Broker) {
		r := newRig(t, b)
		proxy := r.broker.Proxy(t)
		first, cut := r.cfg, r.cfg
		cut.URL = proxy.URL
		one, two := subscription.New(cut), subscription.New(first)
		r.create(t, one, toHandler("orders"))
		var calls [2]positions
		var active atomic.Int32
		handle := func(i int) func(context.Context, subscription.Delivery) error {
			return func(_ context.Context, d subscription.Delivery) error {
				if active.Add(1) > 1 {
					t.Error("two processes deliver at once")
				}
				defer active.Add(-1)
				calls[i].add(d.Position.Sequence)
				return nil
			}
		}
		r.run(t, one, "orders", handle(0))
		rabbittest.Eventually(t, "the first process runs it", func() bool { return len(one.Running()) == 1 })
		r.run(t, two, "orders", handle(1))
		storeEvents(t, r.store, source, 1, 2, 3)
		rabbittest.Eventually(t, "the first process delivers", func() bool { return len(calls[0].list()) == 3 })
		proxy.Cut()
		rabbittest.Eventually(t, "the first process knows", func() bool { return len(one.Running()) == 0 })
		storeEvents(t, r.store, source, 4, 5)
		rabbittest.Eventually(t, "the second process takes over", func() bool { return slices.Contains(calls[1].list(), 5) })
		all := append(calls[0].list(), calls[1].list()...)
		slices.Sort(all)
		if all = slices.Compact(all); !slices.Equal(all, numbers(1, 5)) {
			t.Errorf("delivered %v", all)
		}
	})
}

// A poison message is parked, the rest goes on, and it can be tried again or dropped.
func TestPark(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	storeEvents(t, r.store, source, numbers(1, 5)...)
	s := subscription.New(r.cfg)
	sub := toHandler("orders")
	sub.Policy = &retry.Policy{Delays: []time.Duration{time.Millisecond}}
	r.create(t, s, sub)
	var got positions
	var repaired atomic.Bool
	r.run(t, s, "orders", func(_ context.Context, d subscription.Delivery) error {
		got.add(d.Position.Sequence)
		switch {
		case d.Position.Sequence == 2 && !repaired.Load():
			return retry.Permanent(errors.New("no such order"))
		case d.Position.Sequence == 4:
			return errors.New("out of stock")
		}
		return nil
	})
	rabbittest.Eventually(t, "all are handled", func() bool { return get(t, s, "orders").Checkpoint.Delivered == 3 })
	if !slices.Equal(got.list(), []int64{1, 2, 3, 4, 4, 5}) {
		t.Errorf("calls %v", got.list())
	}
	list, err := s.Parked(t.Context(), "orders")
	if err != nil || len(list) != 2 || list[0].EventID != "shop-2" || list[0].Cause != subscription.TargetError || list[0].Error != "no such order" ||
		list[1].Cause != subscription.AttemptsExhausted || list[1].Error != "out of stock" {
		t.Fatalf("parked %+v, %v", list, err)
	}
	repaired.Store(true)
	if n, err := s.RetryParked(t.Context(), "orders", "ada", []string{"2:shop-2"}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	rabbittest.Eventually(t, "one is parked", func() bool { list, _ := s.Parked(t.Context(), "orders"); return len(list) == 1 })
	if last := got.list(); last[len(last)-1] != 2 {
		t.Errorf("calls %v", last)
	}
	if n, err := s.Drop(t.Context(), "orders", nil); n != 1 || err != nil {
		t.Error(n, err)
	}
	var mistake *subscription.Error
	if _, err := s.Drop(t.Context(), "orders", []string{"4:shop-4"}); !errors.As(err, &mistake) {
		t.Error(err)
	}
}

// An operator's retry of a parked message outlives an outage of the store.
func TestParkedRetryDuringAnOutage(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	storeEvents(t, r.store, source, numbers(1, 3)...)
	store := &unavailable{records: r.cfg.Store}
	r.cfg.Store = store
	s := subscription.New(r.cfg)
	r.create(t, s, toHandler("orders"))
	var repaired atomic.Bool
	r.run(t, s, "orders", func(_ context.Context, d subscription.Delivery) error {
		if d.Position.Sequence == 2 && !repaired.Load() {
			return retry.Permanent(errors.New("no such order"))
		}
		return nil
	})
	rabbittest.Eventually(t, "one is parked", func() bool { return get(t, s, "orders").Checkpoint.Delivered == 2 })
	repaired.Store(true)
	store.failures.Store(1)
	if n, err := s.RetryParked(t.Context(), "orders", "ada", []string{"2:shop-2"}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	rabbittest.Eventually(t, "nothing is parked", func() bool { list, err := s.Parked(t.Context(), "orders"); return len(list) == 0 && err == nil })
	if store.failures.Load() >= 0 {
		t.Error("the store did not fail")
	}
}

// A document that cannot be read is parked, but has no message to deliver again.
func TestParkedDocumentThatCannotBeRead(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	storeEvents(t, r.store, source, numbers(1, 3)...)
	r.cfg.Store = unreadable{r.cfg.Store}
	s := subscription.New(r.cfg)
	r.create(t, s, toHandler("orders"))
	r.run(t, s, "orders", func(_ context.Context, d subscription.Delivery) error {
		if d.Position.Sequence == 3 {
			return retry.Permanent(errors.New("no such order"))
		}
		return nil
	})
	rabbittest.Eventually(t, "two are parked", func() bool { return get(t, s, "orders").Checkpoint.Parked == 2 })
	list, err := s.Parked(t.Context(), "orders")
	if err != nil || len(list) != 2 || list[0].EventID != "" {
		t.Fatalf("parked %+v, %v", list, err)
	}
	var mistake *subscription.Error
	if n, err := s.RetryParked(t.Context(), "orders", "ada", []string{subscription.FormatPosition(list[0].Position)}); n != 0 || !errors.As(err, &mistake) {
		t.Errorf("%d are retried, %v", n, err)
	}
	if n, err := s.RetryParked(t.Context(), "orders", "ada", nil); n != 1 || err != nil {
		t.Errorf("%d are retried, %v", n, err)
	}
	list, err = s.Parked(t.Context(), "orders")
	if err != nil || len(list) != 2 || list[0].Retry {
		t.Errorf("parked %+v, %v", list, err)
	}
}

// unreadable is a store whose second event cannot be read.
type unreadable struct{ records }

func (u unreadable) Events(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		for event, err := range u.records.Events(ctx, sel) {
			if event.Sequence == 2 {
				event, err = schemas.Event{}, errors.New("event shop-2: unexpected end of JSON input")
			}
			if !yield(event, err) {
				return
			}
		}
	}
}

type records = subscription.Records

// unavailable is a store that is unavailable for some reads of one event.
type unavailable struct {
	records
	failures atomic.Int32
}

func (u *unavailable) Events(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error] {
	if sel.Limit == 1 && u.failures.Add(-1) == 0 {
		return func(yield func(schemas.Event, error) bool) {
			yield(schemas.Event{}, &eventstore.Error{Kind: eventstore.Unavailable, Reason: "an outage"})
		}
	}
	return u.records.Events(ctx, sel)
}

// A poison message stops the subscription, if told so.
func TestStop(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	storeEvents(t, r.store, source, numbers(1, 4)...)
	s := subscription.New(r.cfg)
	sub := toHandler("orders")
	sub.OnPoison = subscription.Stop
	r.create(t, s, sub)
	var got positions
	var repaired atomic.Bool
	r.run(t, s, "orders", func(_ context.Context, d subscription.Delivery) error {
		got.add(d.Position.Sequence)
		if d.Position.Sequence == 3 && !repaired.Load() {
			return retry.Permanent(errors.New("no such order"))
		}
		return nil
	})
	rabbittest.Eventually(t, "it stops", func() bool { return get(t, s, "orders").State == subscription.Stopped })
	stopped := get(t, s, "orders")
	if !strings.Contains(stopped.Reason, "shop-3") || stopped.Checkpoint.Position.Sequence != 2 || !slices.Equal(got.list(), numbers(1, 3)) {
		t.Errorf("%+v after %v", stopped, got.list())
	}
	repaired.Store(true)
	if _, err := s.Resume(t.Context(), "orders", "ada"); err != nil {
		t.Fatal(err)
	}
	rabbittest.Eventually(t, "it goes on", func() bool { return slices.Equal(got.list(), []int64{1, 2, 3, 3, 4}) })
}

// A change by an operator wins over the checkpoints of the runner.
func TestChangesWin(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	s := subscription.New(r.cfg)
	r.create(t, s, toHandler("orders"))
	var got positions
	gate := make(chan struct{})
	r.run(t, s, "orders", func(ctx context.Context, d subscription.Delivery) error {
		got.add(d.Position.Sequence)
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	storeEvents(t, r.store, source, numbers(1, 5)...)
	gate <- struct{}{}
	rabbittest.Eventually(t, "the second call", func() bool { return len(got.list()) == 2 })
	if _, err := s.Pause(t.Context(), "orders", "ada", "a deploy"); err != nil {
		t.Fatal(err)
	}
	rabbittest.Eventually(t, "nothing runs", func() bool { return len(s.Running()) == 0 })
	if p := get(t, s, "orders"); p.State != subscription.Paused || p.Reason != "a deploy" || p.ChangedBy != "ada" {
		t.Errorf("%+v", p)
	}
	close(gate)
	if _, err := s.Rewind(t.Context(), "orders", "ada", subscription.From{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Resume(t.Context(), "orders", "ada"); err != nil {
		t.Fatal(err)
	}
	rabbittest.Eventually(t, "all come again", func() bool { return slices.Equal(got.list(), []int64{1, 2, 1, 2, 3, 4, 5}) })
	rabbittest.Eventually(t, "the checkpoint is saved", func() bool { return get(t, s, "orders").Checkpoint.CaughtUp })
	if _, err := s.Rewind(t.Context(), "orders", "ada", subscription.From{Position: get(t, s, "orders").Start}); err != nil { // while it runs
		t.Fatal(err)
	}
	rabbittest.Eventually(t, "all come a third time", func() bool { return len(got.list()) == 12 })
}

// A pause keeps the progress that is not saved yet: nothing is repeated.
func TestPauseKeepsTheProgress(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	s := subscription.New(r.cfg)
	r.create(t, s, toHandler("orders"))
	var got positions
	r.run(t, s, "orders", func(_ context.Context, d subscription.Delivery) error {
		got.add(d.Position.Sequence)
		return nil
	})
	for n := range int64(4) {
		rabbittest.Eventually(t, "it runs", func() bool { return len(s.Running()) == 1 })
		storeEvents(t, r.store, source, 2*n+1, 2*n+2)
		rabbittest.Eventually(t, "two come", func() bool { return len(got.list()) >= int(2*n+2) })
		if _, err := s.Pause(t.Context(), "orders", "ada", ""); err != nil {
			t.Fatal(err)
		}
		rabbittest.Eventually(t, "it ends", func() bool { return len(s.Running()) == 0 })
		if _, err := s.Resume(t.Context(), "orders", "ada"); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got.list(), numbers(1, 8)) {
		t.Errorf("calls %v", got.list())
	}
}

// The operators' changes are never lost, however many checkpoints are saved meanwhile.
func TestChangesRaceWithCheckpoints(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	s, queue := subscription.New(r.cfg), r.broker.Queue(t, nil)
	storeEvents(t, r.store, source, numbers(1, 3000)...)
	sub := toQueue("orders", queue)
	sub.Target.MaxBacklog = -1
	ch := r.broker.Channel(t)
	r.create(t, s, sub)
	r.serve(t, s)
	for i := range 5 {
		if _, err := s.Rewind(t.Context(), "orders", "ada", subscription.From{}); err != nil {
			t.Fatal(err)
		}
		rabbittest.Eventually(t, "all come again", func() bool {
			state, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil)
			return err == nil && state.Messages >= 3000*(i+1)
		})
	}
	if err := s.Delete(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	rabbittest.Eventually(t, "nothing runs", func() bool { return len(s.Running()) == 0 })
	var missing *subscription.NotFoundError
	if _, err := s.Get(t.Context(), "orders"); !errors.As(err, &missing) {
		t.Errorf("after the deletion: %v", err)
	}
}

// Without its consumer a queue gets no more than its limit.
func TestBacklog(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		r := newRig(t, b)
		storeEvents(t, r.store, source, numbers(1, 300)...)
		s := subscription.New(r.cfg)
		limited, full, none := r.broker.Queue(t, nil), r.broker.Queue(t, amqp.Table{"x-max-length": int32(40), "x-overflow": "reject-publish"}), rabbittest.Name(t)
		sub := toQueue("limited", limited)
		sub.Target.MaxBacklog = 25
		r.create(t, s, sub)
		r.create(t, s, toQueue("full", full))
		r.create(t, s, toQueue("none", none))
		r.serve(t, s)
		rabbittest.Eventually(t, "all wait", func() bool {
			return get(t, s, "limited").Checkpoint.Waiting == subscription.QueueBacklog && get(t, s, "full").Checkpoint.Waiting == subscription.QueueRefuses &&
				get(t, s, "none").Checkpoint.Waiting == subscription.QueueMissing
		})
		if n := r.broker.Len(t, limited); n != 25 {
			t.Errorf("the queue has %d messages", n)
		}
		for _, queue := range []string{limited, full} {
			var got []int64
			for _, d := range r.broker.Take(t, queue, 300) {
				got = append(got, positionOf(t, d))
			}
			slices.Sort(got)
			if got = slices.Compact(got); !slices.Equal(got[:100], numbers(1, 100)) {
				t.Errorf("queue %s got %v", queue, got)
			}
		}
		if _, err := r.broker.Channel(t).QueueDeclare(none, false, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if first := r.broker.Take(t, none, 300)[0]; positionOf(t, first) != 1 {
			t.Errorf("the new queue begins with %d", positionOf(t, first))
		}
		if list, err := s.Parked(t.Context(), "full"); len(list) > 0 || err != nil {
			t.Errorf("parked: %v, %v", list, err)
		}
	})
}

func TestMistakes(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	s := subscription.New(r.cfg)
	r.create(t, s, toQueue("orders", "q"))
	for text, sub := range map[string]subscription.Subscription{
		"there is a subscription orders": toQueue("orders", "q"),
		"cannot be the name":             toQueue("a b", "q"),
		"Watership's own":                toQueue("own", "watership.log"),
		"name of a queue":                toQueue("none", ""),
		"no target":                      {Name: "none"},
		"on poison":                      {Name: "poison", Target: subscription.Target{Kind: subscription.ToHandler}, OnPoison: "shrug"},
		"with http or https":             {Name: "url", Target: subscription.Target{Kind: subscription.ToURL, URL: "ftp://a"}},
		"such as":                        {Name: "query", Query: "actoin: x", Target: subscription.Target{Kind: subscription.ToHandler}},
	} {
		_, err := s.Create(t.Context(), sub, subscription.From{})
		var mistake *subscription.Error
		if !errors.As(err, &mistake) || text != "such as" && !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %s", sub, err, text)
		}
	}
	for query, want := range map[string]string{
		"":                       `(event.action: "published" or watership.quarantined_action: "published")`,
		"event.action: poisoned": "event.action: poisoned",
	} {
		sub := toHandler("q" + rabbittest.Name(t))
		sub.Name, sub.Query = strings.NewReplacer("/", "-").Replace("q"+query[:min(1, len(query))]), query
		if created := r.create(t, s, sub); strings.Trim(created.Query, "()") != strings.Trim(want, "()") {
			t.Errorf("%q is %s, want %s", query, created.Query, want)
		}
	}
}

func TestFrom(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	base := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC).UnixMicro()
	storeEvents(t, r.store, source, base, base+1_000_000, base+2_000_000)
	s := subscription.New(r.cfg)
	for text, want := range map[string]int64{
		"start": 0, "now": base + 2_000_001, "2026-01-31T12:00:01Z": base + 1_000_000, "2026-01-31T13:00:00Z": base + 2_000_001, "2026-01-31 12:00:01Z": base + 1_000_000, "7": 7, "1764000000000000:a": 1764000000000000,
	} {
		from, err := subscription.ParseFrom(text, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		sub, err := s.Create(t.Context(), toHandler(strings.NewReplacer(":", "-", " ", "T-").Replace("s"+text)), from)
		if err != nil || sub.Start.Sequence != want {
			t.Errorf("%s: position %v, %v, want %d", text, sub.Start, err, want)
		}
	}
	for _, text := range []string{"yesterday", "-5", "now+5h", "1999-12-31"} {
		if from, err := subscription.ParseFrom(text, time.Now()); err == nil {
			t.Errorf("%s is %+v", text, from)
		}
	}
}

// A channel gets one delivery after another, each after Done.
func TestToAChannel(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	storeEvents(t, r.store, source, numbers(1, 3)...)
	s := subscription.New(r.cfg)
	r.create(t, s, toHandler("orders"))
	deliveries := make(chan subscription.Received)
	stop := background(t, func(ctx context.Context) error { return s.Send(ctx, "orders", deliveries) })
	for n := range int64(3) {
		d := <-deliveries
		if d.Position.Sequence != n+1 {
			t.Errorf("got %d", d.Position.Sequence)
		}
		d.Done(nil)
	}
	stop()
	if _, more := <-deliveries; more {
		t.Error("a fourth delivery")
	}
	if c := get(t, s, "orders").Checkpoint; c.Delivered != 3 {
		t.Errorf("%+v", c)
	}
}

// Deliveries without a record go on over a lost connection.
func TestFollow(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	storeEvents(t, r.store, source, numbers(1, 50)...)
	queue, proxy := r.broker.Queue(t, nil), r.broker.Proxy(t)
	r.cfg.URL = proxy.URL
	s := subscription.New(r.cfg)
	background(t, func(ctx context.Context) error {
		return s.Follow(ctx, toQueue("", queue), subscription.From{}, func(subscription.Checkpoint) {})
	})
	taken := r.broker.Take(t, queue, 50)
	proxy.Cut()
	storeEvents(t, r.store, source, 51)
	proxy.Mend()
	seen := map[int64]bool{}
	rabbittest.Eventually(t, "the next one comes", func() bool {
		if r.broker.Len(t, queue) > 0 {
			taken = append(taken, r.broker.Take(t, queue, 1)...)
			seen[positionOf(t, taken[len(taken)-1])] = true
		}
		return seen[51]
	})
	if list, err := s.List(t.Context()); len(list) > 0 || err != nil {
		t.Errorf("%v, %v", list, err)
	}
}

// A queue that is deleted and declared again gets what was waiting for it. Until then the
// subscription has not caught up.
func TestQueueThatComesBack(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		r := newRig(t, b)
		storeEvents(t, r.store, source, 1)
		s, queue := subscription.New(r.cfg), r.broker.Queue(t, nil)
		created := r.create(t, s, toQueue("orders", queue))
		if lag := created.Lag(created.Created.Add(time.Minute)); lag != time.Minute {
			t.Errorf("before its first delivery it lags by %s", lag)
		}
		r.serve(t, s)
		r.broker.Take(t, queue, 1)
		rabbittest.Eventually(t, "it has caught up", func() bool { return get(t, s, "orders").Checkpoint.CaughtUp })
		if _, err := r.broker.Channel(t).QueueDelete(queue, false, false, false); err != nil {
			t.Fatal(err)
		}
		storeEvents(t, r.store, source, 2, 3)
		rabbittest.Eventually(t, "it waits for the queue", func() bool {
			c := get(t, s, "orders").Checkpoint
			return c.Waiting == subscription.QueueMissing && !c.CaughtUp
		})
		if _, err := r.broker.Channel(t).QueueDeclare(queue, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		for i, d := range r.broker.Take(t, queue, 2) {
			if positionOf(t, d) != int64(i+2) {
				t.Errorf("delivery %d has position %d", i, positionOf(t, d))
			}
		}
	})
}

// The time to live of a message is over in history: its delivery has none.
func TestDeliveriesDoNotExpire(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	e := schemas.Event{Action: schemas.Published, Sequence: 1, Source: source, VHost: "/"}
	e.Time, e.EventID = time.UnixMicro(1).UTC(), "shop-1"
	e.Envelope.Properties.Expiration, e.Envelope.Body = "1", []byte("{}")
	e.Fingerprint = e.Envelope.Fingerprint()
	if _, err := r.store.Create(t.Context(), []schemas.Document{schemas.DocumentFormat{}.Document(e)}); err != nil {
		t.Fatal(err)
	}
	s, queue := subscription.New(r.cfg), r.broker.Queue(t, nil)
	r.create(t, s, toQueue("orders", queue))
	r.serve(t, s)
	if d := r.broker.Take(t, queue, 1)[0]; d.Expiration != "" {
		t.Errorf("the delivery expires after %s ms", d.Expiration)
	}
}

// Deliveries to a queue without a consumer stop at its backlog, and take no more memory the
// more events are stored.
func TestAbsentConsumerTakesNoMemory(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	const events, size, limit = 6_000, 8 << 10, 32 << 20
	body := bytes.Repeat([]byte("x"), size) // 48 MB in all
	for first := int64(1); first <= events; first += 500 {
		var documents []schemas.Document
		for n := first; n < first+500; n++ {
			e := schemas.Event{Action: schemas.Published, Sequence: n, Source: source, VHost: "/"}
			e.Time, e.EventID = time.UnixMicro(n).UTC(), fmt.Sprint("shop-", n)
			e.Envelope.Body = fmt.Append(nil, n, string(body))
			e.Fingerprint = e.Envelope.Fingerprint()
			documents = append(documents, schemas.DocumentFormat{}.Document(e))
		}
		if _, err := r.store.Create(t.Context(), documents); err != nil {
			t.Fatal(err)
		}
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	s, queue := subscription.New(r.cfg), r.broker.Queue(t, nil)
	sub := toQueue("orders", queue)
	sub.Target.MaxBacklog = 50
	r.create(t, s, sub)
	r.serve(t, s)
	rabbittest.Eventually(t, "it waits for the consumer", func() bool {
		return get(t, s, "orders").Checkpoint.Waiting == subscription.QueueBacklog
	})
	if n := r.broker.Len(t, queue); n != 50 {
		t.Errorf("the queue has %d messages", n)
	}
	if grown := heap() - before; grown > limit {
		t.Errorf("the memory has grown by %d MiB", grown>>20)
	} else {
		t.Logf("the memory has grown by %d KiB", grown>>10)
	}
}

// RabbitMQ closes the connection of a binding that it cannot make in time. Deliveries have another one.
func TestBindingsHaveAConnection(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	url, bindings := r.broker.CountBindings(t)
	r.cfg.URL = url
	storeEvents(t, r.store, source, numbers(1, 3)...)
	s, queue := subscription.New(r.cfg), r.broker.Queue(t, nil)
	r.create(t, s, toQueue("orders", queue))
	r.serve(t, s)
	r.broker.Take(t, queue, 3)
	if publishing, others := bindings(); publishing != 0 || others == 0 {
		t.Errorf("%d bindings on connections that publish, %d on others", publishing, others)
	}
}
