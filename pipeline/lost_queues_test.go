package pipeline

import (
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// A queue of Watership that somebody deletes takes messages with it: one event says so, whichever
// process finds it, and in the queue of events, too, if it was that queue.
func TestDeletedQueuesHaveAnEvent(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.EachKind(t, func(t *testing.T, b rabbittest.Broker) {
		r := startSilent(t, b, func(c *Config) {
			c.TopologyEvery = 20 * time.Millisecond
			c.Routes = []Route{{Queue: b.Queue(t, nil), Handler: handler(nil), Fairness: Fairness{Key: func(schemas.Envelope) string { return "" }, Ordered: true}}}
		})
		r.run()
		events := b.Queue(t, nil)
		if err := r.admin.QueueBind(events, string(schemas.Dropped), r.topology.Events(), false, nil); err != nil {
			t.Fatal(err)
		}
		recorded := make(chan schemas.State, 1000)
		r.follow(events, func(d amqp.Delivery) {
			_, state, err := wire.Unwrap(schemas.FromDelivery(d))
			if err != nil {
				t.Error(err)
			}
			recorded <- state
		})
		type loss struct{ queue, kind, text string }
		losses := []loss{
			{r.topology.Log(), "gap", "events that waited in it are not recorded"},
			{r.topology.Index(), "gap", "copies of messages that waited in it"},
			{r.topology.IndexLate(), "gap", "copies of messages that waited in it"},
			{r.topology.Retry(), "deleted_queue", "messages that failed in other consumers"},
			{r.topology.Report(), "deleted_queue", "messages that waited in it are lost"},
			{r.topology.Due(), "deleted_queue", "messages that waited in it are lost"},
			{wire.DelaysOf(r.topology).Queue(100 * time.Millisecond), "deleted_queue", "messages that waited in it are lost"},
			{r.topology.Poison(), "deleted_queue", "messages that waited in it are lost"},
			{r.topology.Unstorable(), "deleted_queue", "messages that waited in it are lost"},
			{r.topology.Paused(), "deleted_queue", "routes that were paused by hand go on"},
			{r.topology.Places(r.cfg.Routes[0].Queue), "deleted_queue", "may be handled out of order"},
		}
		for _, want := range losses {
			if _, err := r.admin.QueueDelete(want.queue, false, false, false); err != nil {
				t.Fatal(err)
			}
			got := rabbittest.Receive(t, recorded)
			if got.Queue != want.queue || got.Failure.Type != want.kind || !strings.Contains(got.Failure.Message, want.text) {
				t.Errorf("%+v instead of %+v", got.Failure, want)
			}
		}
		rabbittest.Eventually(t, "every event to be in the queue of events", func() bool { return b.Len(t, r.topology.Log()) >= len(losses) })
		if n := b.Len(t, r.topology.Log()); n > len(losses) || len(recorded) > 0 {
			t.Errorf("%d events instead of %d", n, len(losses))
		}
	})
}
