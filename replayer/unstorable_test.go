package replayer

import (
	"bytes"
	"context"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// publishUnstorable publishes a message as the indexer does when it is too large for
// the store.
func (f *fixture) publishUnstorable(n, size int) schemas.Event {
	f.t.Helper()
	e := f.message(n)
	e.Body = bytes.Repeat([]byte{byte(n)}, size)
	event := f.event(schemas.Published, e)
	queue := f.cfg.Topology.Unstorable()
	f.bind(queue, "", "", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(2147483647)})
	if err := f.channel.Confirm(false); err != nil {
		f.t.Fatal(err)
	}
	confirm, err := f.channel.PublishWithDeferredConfirmWithContext(context.Background(), "", queue, true, false, wire.DefaultFrameMax.Wrap(e, event.State))
	if err != nil || !confirm.Wait() {
		f.t.Fatalf("publishing an unstorable message: %v", err)
	}
	event.Envelope.Body, event.BodyIn = nil, schemas.BodyInUnstorable
	return event
}

// TestUnstorableBodies: bodies are read from the queue of unstorable messages, and
// stay there.
func TestUnstorableBodies(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, broker rabbittest.Broker) {
		f := newFixtureOn(t, broker)
		first, other, second := f.publishUnstorable(1, 200_000), f.publishUnstorable(2, 10), f.publishUnstorable(3, 300_000)
		f.storeEvents(first, second, f.published(4))
		unstorable := func() int { return f.broker.Len(t, f.cfg.Topology.Unstorable()) }
		for range 2 {
			job := f.job("")
			job.Again = true
			wantJob(t, f.run(job), Done, 3, 0)
			got := f.drain(f.queue)
			if len(got) != 3 || !bytes.Equal(got[0].Body, bytes.Repeat([]byte{1}, 200_000)) ||
				!bytes.Equal(got[1].Body, bytes.Repeat([]byte{3}, 300_000)) || got[2].MessageId != "m-4" {
				t.Errorf("%d messages arrived, or others", len(got))
			}
			rabbittest.Eventually(t, "the messages are requeued", func() bool { return unstorable() == 3 })
		}
		f.storeEvents(other)
		if _, err := f.channel.QueuePurge(f.cfg.Topology.Unstorable(), false); err != nil {
			t.Fatal(err)
		}
		f.indexLog()
		ran := f.run(f.job(`messaging.message.id: "m-2"`))
		wantJob(t, ran, Done, 0, 1)
		if len(ran.Failures) != 1 || !strings.Contains(ran.Failures[0].Reason, "neither has the queue of unstorable messages") {
			t.Errorf("the failures are %+v", ran.Failures)
		}
	})
}
