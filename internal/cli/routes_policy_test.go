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

// A queue that its owner declared without Watership gets retries by one command, and loses them by another, directly and
// through the API.
func TestRouteOfAnExistingQueue(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.EachKind(t, func(t *testing.T, broker rabbittest.Broker) {
		i := servertest.Install(t, broker, "http://127.0.0.1:9/")
		i.Serve(t)
		queue := broker.Queue(t, amqp.Table{"x-queue-type": "quorum"})
		environ := serveAPI(t, config.Sources{File: i.Config}).environ(t, access.Token{Name: "ada", Role: access.Admin})
		through := func(args ...string) servertest.Result {
			return call(t.Context(), strings.NewReader(""), environ, args...)
		}
		for _, test := range []struct {
			code       int
			text, args string
		}{
			{exitUsage, "give --yes, or --dry-run", "route add QUEUE"},
			{exitOK, "dead-letter-exchange: " + i.Prefix + ".retry", "route add QUEUE --dry-run"},
			{exitOK, "a route of the configuration consumes queue " + i.Queue, "route add " + i.Queue + " --dry-run"},
			{exitFailed, "there is no policy", "route remove QUEUE --yes"},
			{exitOK, "done: RabbitMQ has applied the change", "route add QUEUE --yes"},
			{exitOK, "has policy", "route add QUEUE --yes"},
			{exitOK, "delete policy", "route remove QUEUE --dry-run"},
		} {
			args := strings.Fields(strings.ReplaceAll(test.args, "QUEUE", queue))
			directly := i.Run(t, args...)
			servertest.WantRun(t, directly, test.code, test.text)
			if strings.HasPrefix(test.text, "done: ") {
				continue
			}
			if got := through(args...); got != directly {
				t.Errorf("%v through the server: %+v\ndirectly: %+v", args, got, directly)
			}
		}
		deliveries, err := broker.Channel(t).Consume(queue, "", false, false, false, false, nil)
		if err == nil {
			err = i.Publisher(t).Publish(t.Context(), rabbit.Message{RoutingKey: queue, Publishing: amqp.Publishing{MessageId: "m-1"}})
		}
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
		servertest.WantRun(t, i.Run(t, "route", "remove", queue, "--yes", "--operator", "eve", "--reason", "no more"), 0, "done: RabbitMQ has applied the change")
		i.Eventually(t, `action: audited and user.name: eve and event.reason: "no more"`, 1) // and no dry run
		servertest.WantRun(t, through("route", "add", queue, "--yes"), 0, "done: RabbitMQ has applied the change")
		servertest.WantRun(t, through("route", "remove", queue, "--yes"), 0, "done: RabbitMQ has applied the change")
	})
}
