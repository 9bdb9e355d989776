package cli

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
)

// A queue that its owner declared without Watership gets retries by one command, and loses
// them by another.
func TestRouteOfAnExistingQueue(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.EachKind(t, func(t *testing.T, broker rabbittest.Broker) {
		i := servertest.Install(t, broker, "http://127.0.0.1:9/")
		i.Serve(t)
		queue := broker.Queue(t, amqp.Table{"x-queue-type": "quorum"})
		servertest.WantRun(t, i.Run(t, "route", "add", queue), 2, "give --yes, or --dry-run")
		environ := serveAPI(t, config.Sources{File: i.Config}).environ(t, access.Token{Name: "ada", Role: access.Admin})
		through := func(args ...string) servertest.Result {
			return call(t.Context(), strings.NewReader(""), environ, args...)
		}
		same := func(code int, text string, args ...string) {
			t.Helper()
			directly := i.Run(t, args...)
			servertest.WantRun(t, directly, code, text)
			if got := through(args...); got != directly {
				t.Errorf("%v through the server: %+v\ndirectly: %+v", args, got, directly)
			}
		}
		same(0, "dead-letter-exchange: "+i.Prefix+".retry", "route", "add", queue, "--dry-run")
		same(0, "a route of the configuration consumes queue "+i.Queue, "route", "add", i.Queue, "--dry-run")
		if got := through("route", "add", queue, "--dry-run"); strings.Contains(got.Out, "consumes") {
			t.Error(got.Out)
		}
		same(0, "messages that expire by message-ttl were dropped, and become failures from now on",
			"route", "add", broker.Queue(t, amqp.Table{"x-message-ttl": 60_000}), "--dry-run")
		same(1, "there is no policy", "route", "remove", queue, "--yes")
		servertest.WantRun(t, through("route", "add", queue, "--yes"), 0, "dead-letter-exchange: "+i.Prefix+".retry", "done: RabbitMQ has applied the change")
		i.Must(t, "routes", "pause", "--all", "--reason", "test")
		servertest.Until(t, "the route to stop consuming", func() bool {
			q, err := broker.Channel(t).QueueDeclarePassive(i.Queue, true, false, false, false, nil)
			return err == nil && q.Consumers == 0
		})
		i.Eventually(t, "action: paused and error.type: operator", 1)
		servertest.Until(t, "the management API, whose counts are some seconds old, to know it", func() bool {
			for line := range strings.Lines(through("routes").Out) {
				if columns := strings.Fields(line); columns[0] == i.Queue {
					return columns[3] == "0"
				}
			}
			return false
		})
		same(0, queue+"  no consumer", "routes")
		same(2, "another program consumes queue "+queue+": Watership cannot pause it", "routes", "pause", queue, "--reason", "test")
		i.Must(t, "routes", "resume", "--all")
		same(0, "has policy", "route", "add", queue, "--yes")
		if err := i.Publisher(t).Publish(t.Context(), rabbit.Message{RoutingKey: queue, Publishing: amqp.Publishing{MessageId: "m-1"}}); err != nil {
			t.Fatal(err)
		}
		deliveries, err := broker.Channel(t).Consume(queue, "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		for attempt := 1; attempt <= 3; attempt++ { // of the policy of the installation
			if err := rabbittest.Receive(t, deliveries).Reject(false); err != nil {
				t.Fatal(err)
			}
		}
		if e := i.Eventually(t, "action: poisoned", 1)[0]; e.Queue != queue || e.Attempt != 3 {
			t.Errorf("poisoned %+v", e)
		}
		same(0, "delete policy", "route", "remove", queue, "--dry-run")
		servertest.WantRun(t, i.Run(t, "route", "remove", queue, "--yes", "--operator", "eve", "--reason", "no more"), 0, "done: RabbitMQ has applied the change")
		removed := i.Eventually(t, "action: audited and user.name: eve", 1)[0].Audit // and no dry run
		if removed.Operation != "remove" || removed.Object != "route "+queue || removed.Reason != "no more" || removed.Address != "" || removed.Refused {
			t.Errorf("recorded %+v", removed)
		}
		servertest.WantRun(t, i.Run(t, "route", "add", queue, "--yes"), 0, "done: RabbitMQ has applied the change")
		servertest.WantRun(t, through("route", "remove", queue, "--yes"), 0, "done: RabbitMQ has applied the change")
		same(1, "there is no policy", "route", "remove", queue, "--yes")
	})
}
