package broker_test

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
)

// Whoever works a full broker's queues off can publish, up to twice as much as
// others, and in the end as much as it needs, when the others have to go.
func TestInside(t *testing.T) {
	b := start(t, broker.Config{Limits: broker.Limits{Memory: 100_000}})
	outside := connect(t, b)
	gone, stopped := outside.NotifyClose(make(chan *amqp.Error, 1)), outside.NotifyBlocked(make(chan amqp.Blocking, 1))
	address, err := b.ListenInternal("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	inside, err := amqp.Dial("amqp://guest:guest@" + address.String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	blocked := inside.NotifyBlocked(make(chan amqp.Blocking, 10))
	publishing, others := channel(t, inside), channel(t, outside)
	declare(t, publishing, "q", nil)
	big := amqp.Publishing{Body: make([]byte, 60_000)}
	for range 2 {
		publish(t, others, "q", big)
	}
	receive(t, stopped)
	publish(t, publishing, "q", big)
	if len(blocked) > 0 {
		t.Error("the inside is stopped with the others")
	}
	publish(t, publishing, "q", big)
	if state := receive(t, blocked); !state.Active {
		t.Errorf("%+v", state)
	}
	b.CloseExternal()
	if why := receive(t, gone); why == nil || why.Code != amqp.ConnectionForced {
		t.Errorf("the outside is told %v", why)
	}
	if state := receive(t, blocked); state.Active {
		t.Error("the inside stays stopped")
	}
	publish(t, publishing, "q", big)
	if n := length(t, publishing, "q"); n != 5 || b.QueueLengths("/")["q"] != n {
		t.Errorf("%d messages, %v kept, want 5", n, b.QueueLengths("/"))
	}
}
