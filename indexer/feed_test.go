package indexer

import (
	"context"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"golang.org/x/time/rate"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// confirmedFeed publishes messages to a broker that may restart. It does not repeat
// unconfirmed messages, so that none is published twice.
type confirmedFeed struct {
	*system
	published map[string]bool // by name: whether it was confirmed
	certain   int
	read      int // events, by the last reader
}

// run publishes until count messages are confirmed, at most pace a second.
func (f *confirmedFeed) run(count, pace int) {
	limit := rate.NewLimiter(rate.Limit(pace), feedWindow)
	for n := 0; f.certain < count; {
		conn, err := amqp091.Dial(f.URL)
		if err != nil {
			time.Sleep(100 * time.Millisecond) // between connection attempts
			continue
		}
		if channel, err := conn.Channel(); err == nil && channel.Confirm(false) == nil {
			for f.certain < count && f.window(channel, &n) {
				_ = limit.WaitN(context.Background(), feedWindow)
			}
		}
		_ = conn.Close()
	}
}

const feedWindow = 100 // unconfirmed messages

// window publishes some messages and reports whether all were confirmed.
func (f *confirmedFeed) window(channel *amqp091.Channel, n *int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), rabbittest.Timeout)
	defer cancel()
	var names []string
	var confirms []*amqp091.DeferredConfirmation
	for range feedWindow {
		name, m := f.nth(*n)
		*n++
		confirm, err := channel.PublishWithDeferredConfirm(m.Exchange, m.RoutingKey, false, false, m.Publishing)
		f.published[name] = false
		if err != nil {
			break
		}
		names, confirms = append(names, name), append(confirms, confirm)
	}
	all := len(names) == feedWindow
	for i, confirm := range confirms {
		acked, err := confirm.WaitContext(ctx)
		if err == nil && acked {
			f.published[names[i]] = true
			f.certain++
		}
		all = all && err == nil && acked
	}
	return all
}

// nth is a message, or for every tenth an event of one.
func (f *confirmedFeed) nth(n int) (name string, m rabbit.Message) {
	e := f.message("order", n)
	if n%10 == 9 {
		return fmt.Sprint("poisoned ", e.Properties.MessageID), poisoned(e, f.topology, fmt.Sprint("event-", n))
	}
	return fmt.Sprint("published ", e.Properties.MessageID),
		rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: e.Publishing()}
}

// await waits until the queues are empty and the store has all messages.
func (f *confirmedFeed) await(store *elastic.Store) {
	f.t.Helper()
	for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(time.Second) {
		left := 0
		for _, queue := range f.topology.Indexed() {
			left += f.Len(f.t, queue)
		}
		if err := store.Refresh(patient(f.t)); err != nil {
			f.t.Fatal(err)
		}
		documents, err := store.Count(patient(f.t), f.selection(""))
		switch {
		case err != nil:
			f.t.Fatal(err)
		case left == 0 && documents >= int64(f.certain):
			return
		case time.Now().After(deadline):
			f.t.Fatalf("%d documents of %d messages, %d wait", documents, f.certain, left)
		}
	}
}

// wantEachOnce reads all stored events.
func (f *confirmedFeed) wantEachOnce(store *elastic.Store, order eventstore.Order) {
	f.t.Helper()
	sel := f.selection("")
	sel.Order, sel.WithoutBody = order, true
	seen := make(map[string]int, len(f.published))
	f.read = 0
	var last int64
	for event, err := range store.Events(context.Background(), sel) {
		if err != nil {
			f.t.Fatalf("after %d events: %v", f.read, err)
		}
		f.read++
		name := fmt.Sprintf("%s %s", event.Action, event.Envelope.Properties.MessageID)
		if seen[name]++; seen[name] > 1 {
			f.t.Errorf("%s is read %d times", name, seen[name])
		}
		if _, known := f.published[name]; !known {
			f.t.Errorf("%s was not published: %s", name, event.Failure.Message)
		}
		if order == eventstore.BySequence && event.Sequence <= last {
			f.t.Errorf("sequence %d follows %d", event.Sequence, last)
		}
		last = event.Sequence
	}
	for name, certain := range f.published {
		if certain && seen[name] == 0 {
			f.t.Errorf("%s is lost", name)
		}
	}
}
