package cli

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// The queue of a route that is a stream already, as its service declared it: setup and serve
// refuse it, and doctor names it.
func TestStreamIsNoQueueOfARoute(t *testing.T) {
	t.Parallel()
	i := around(t, rabbittest.NewestServer(t)).install(t, nobody)
	if _, err := i.broker.Channel(t).QueueDeclare(i.queue, true, false, false, false, amqp.Table{"x-queue-type": "stream"}); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"setup", "serve"} {
		r := i.run(t, command)
		if r.code != exitFailed || !strings.Contains(r.err, `queue "`+i.queue+`" of a route is a stream`) {
			t.Errorf("%s: %+v", command, r)
		}
	}
	list, _ := i.findings(t)
	wantFinding(t, list, doctor.Error, "bind a queue of type quorum", "routes: queue "+i.queue+" is a stream")
}
