package server_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// A publisher sets priorities while nothing is recorded. RabbitMQ delivers the copies by
// them, which stream and doctor tell. With a classic index queue, to which setup migrates,
// the record has the order of publishing.
func TestPrioritiesOfPublishers(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Newest(t)
	i := servertest.Install(t, broker, servertest.NewService(t, func(servertest.Post, int) int { return 200 }).URL)
	i.Rewrite(t, "tap: {", fmt.Sprintf("streams: [{exchange: %s, id: '{routing_key}'}]\ntap: {", i.Exchange))
	quorum := schemas.Topology{Prefix: i.Prefix}
	classic := schemas.Topology{Prefix: i.Prefix, ClassicIndex: true}
	i.Must(t, "setup")

	publishPriorities(t, i, "first", broker, quorum.Index())
	serving := i.Serve(t)
	i.Eventually(t, "action: published", 10)
	out := i.Must(t, "stream", "first")
	if places(out) == "0 1 2 3 4 5 6 7 8 9" || !strings.Contains(out, "\n9 messages with a priority, which RabbitMQ may have delivered before earlier ones\n") {
		t.Errorf("stream says\n%s", out)
	}
	if r := i.Run(t, "doctor"); !strings.Contains(r.Out, "9 of the newest 10 published messages have a priority") {
		t.Errorf("doctor says\n%s", r.Out)
	}
	serving.Stop(t)

	i.Rewrite(t, "tap: {", "tap: {queue_type: classic, ")
	publishPriorities(t, i, "waiting", broker, quorum.Index())
	if r := i.Run(t, "serve"); r.Code != 1 || !strings.Contains(r.Err, "index.partition_key has changed since it was made") {
		t.Errorf("serve before setup: %+v", r)
	}
	if out := i.Must(t, "setup"); !strings.Contains(out, quorum.Index()+" is emptied and replaced by "+classic.Index()) {
		t.Errorf("setup says %s", out)
	}
	publishPriorities(t, i, "second", broker, classic.Index())
	i.Serve(t)
	i.Eventually(t, "action: published", 30)
	if out := i.Must(t, "stream", "second"); places(out) != "0 1 2 3 4 5 6 7 8 9" || strings.Contains(out, "priority") {
		t.Errorf("stream says\n%s", out)
	}
	servertest.Until(t, "the management API counts the queue anew, and doctor has no errors", func() bool {
		r := i.Run(t, "doctor")
		return !strings.Contains(r.Out, "priority") && strings.Contains(r.Out, classic.Index()+" has 0 messages") && strings.Contains(r.Out, "0 errors")
	})
}

// publishPriorities publishes ten messages to a stream, whose priorities are their numbers,
// and waits until a queue has them.
func publishPriorities(t *testing.T, i *servertest.Installation, stream string, broker rabbittest.Broker, queue string) {
	t.Helper()
	for n := range 10 {
		i.Send(t, i.Exchange, stream, amqp.Publishing{MessageId: fmt.Sprint("m-", n), Priority: uint8(n), Body: []byte("x")})
	}
	servertest.Until(t, "the copies", func() bool { return broker.Len(t, queue) == 10 })
}

// places returns the numbers of the messages that a command shows, in their order.
func places(shown string) string {
	var numbers []string
	for _, found := range regexp.MustCompile(`\bm-(\d)\b`).FindAllStringSubmatch(shown, -1) {
		numbers = append(numbers, found[1])
	}
	return strings.Join(numbers, " ")
}
