package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// newErrorQueue is a queue with failures of Spring and a message of another form.
func newErrorQueue(t *testing.T, i *servertest.Installation, arguments amqp.Table) string {
	t.Helper()
	queue := i.Broker.Queue(t, arguments)
	for n := range 4 {
		m := amqp.Publishing{MessageId: fmt.Sprint("m-", n)}
		if n > 0 {
			m.Headers = amqp.Table{"x-exception-message": "no stock", "x-original-exchange": "shop", "x-original-routingKey": "order.created"}
		}
		if err := i.Broker.Channel(t).Publish("", queue, false, false, m); err != nil {
			t.Fatal(err)
		}
	}
	i.AwaitLen(t, queue, 4)
	return queue
}

// adopt prints the same through a server.
func TestAdoptThroughServer(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Embedded(t)
	i := servertest.Around(t, broker).Install(t, servertest.Nobody)
	i.Must(t, "setup")
	environ := serveAPI(t, config.Sources{File: i.Config}).environ(t, access.Token{Name: "ann", Role: access.Operator})
	through := func(args ...string) servertest.Result {
		return call(t.Context(), strings.NewReader(""), environ, args...)
	}
	one, other := newErrorQueue(t, i, nil), newErrorQueue(t, i, nil)
	for _, test := range []struct {
		code int
		args []string
	}{
		{0, []string{"adopt", one, "--as", "spring", "--queue", "orders", "--dry-run"}},
		{1, []string{"adopt", "nobody", "--as", "spring", "--yes"}},
		{2, []string{"adopt", one, "--as", "none", "--yes"}},
		{2, []string{"adopt", one, "--as", "spring"}},
	} {
		directly := i.Run(t, test.args...)
		if got := through(test.args...); got != directly || got.Code != test.code {
			t.Errorf("%q through the server: %+v\ndirectly: %+v", test.args, got, directly)
		}
		i.AwaitLen(t, one, 4)
	}
	directly := i.Run(t, "adopt", one, "--as", "spring", "--queue", "orders", "--yes", "--operator", "eve", "--reason", "moved")
	servertest.WantRun(t, directly, 0, "took in 3 failures", "orders  shop", "1 message cannot be read as spring and stays in queue "+one)
	events, err := broker.Channel(t).Consume(i.Prefix+".log", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	rabbittest.Receive(t, events) // of the queue that does not exist
	if audited := rabbittest.Receive(t, events); audited.RoutingKey != string(schemas.Audited) || !strings.Contains(fmt.Sprint(audited.Headers["watership-audit"]), "eve") {
		t.Errorf("recorded %+v", audited)
	}
	got := through("adopt", other, "--as", "spring", "--queue", "orders", "--yes")
	if got.Out = strings.ReplaceAll(got.Out, other, one); got != directly {
		t.Errorf("through the server: %+v\ndirectly: %+v", got, directly)
	}
	servertest.WantRun(t, through("adopt", other, "--as", "spring", "--queue", "orders", "--yes"), 1, "took in 0 failures", "1 message cannot be read", "nothing was taken in")
	servertest.WantRun(t, through("adopt", other, "--as", "spring", "--follow", "--yes"), 2, "--follow cannot go through --server")
}

// Ctrl-C cancels an adoption in the server.
func TestInterruptedAdoptThroughServer(t *testing.T) {
	t.Parallel()
	i := servertest.Around(t, rabbittest.Embedded(t)).Install(t, servertest.Nobody)
	i.Must(t, "setup")
	environ := serveAPI(t, config.Sources{File: i.Config}).environ(t, access.Token{Name: "ann", Role: access.Operator})
	queue := newErrorQueue(t, i, amqp.Table{"x-single-active-consumer": true})
	channel := i.Broker.Channel(t) // it holds the queue, so that the adoption waits
	if err := channel.Qos(1, 0, false); err != nil {
		t.Fatal(err)
	}
	if _, err := channel.Consume(queue, "", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	consumers := func() int {
		state, err := i.Broker.Channel(t).QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		return state.Consumers
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out, errs := &servertest.Sink{}, &servertest.Sink{}
	done := make(chan int)
	go func() {
		done <- Run(ctx, terminal.Streams{In: strings.NewReader(""), Out: out, Err: errs}, []string{"adopt", queue, "--as", "spring", "--queue", "orders", "--yes"}, environ)
	}()
	servertest.Until(t, "the adoption to begin", func() bool { return consumers() == 2 })
	interrupt()
	if code := <-done; code != exitInterrupted || out.String() != "" {
		t.Errorf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
	servertest.Until(t, "the adoption to end", func() bool { return consumers() == 1 })
}
