package server_test

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
)

// The queue of a route that is a stream already, as its service declared it: setup and serve
// refuse it, and doctor names it.
func TestStreamIsNoQueueOfARoute(t *testing.T) {
	t.Parallel()
	i := servertest.Around(t, rabbittest.NewestServer(t)).Install(t, servertest.Nobody)
	if _, err := i.Broker.Channel(t).QueueDeclare(i.Queue, true, false, false, false, amqp.Table{"x-queue-type": "stream"}); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"setup", "serve"} {
		r := i.Run(t, command)
		if r.Code != 1 || !strings.Contains(r.Err, `queue "`+i.Queue+`" of a route is a stream`) {
			t.Errorf("%s: %+v", command, r)
		}
	}
	list, _ := i.Findings(t)
	servertest.WantFinding(t, list, doctor.Error, "bind a queue of type quorum", "routes: queue "+i.Queue+" is a stream")
}
