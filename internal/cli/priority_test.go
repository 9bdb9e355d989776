package cli

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// A publisher sets priorities while nothing is recorded. RabbitMQ delivers the copies by
// them, which stream and doctor tell. With a classic index queue, to which setup migrates,
// the record has the order of publishing.
func TestPrioritiesOfPublishers(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Newest(t)
	i := install(t, broker, newService(t, func(post, int) int { return 200 }).url)
	i.rewrite(t, "tap: {", fmt.Sprintf("streams: [{exchange: %s, id: '{routing_key}'}]\ntap: {", i.exchange))
	quorum := schemas.Topology{Prefix: i.prefix}
	classic := schemas.Topology{Prefix: i.prefix, ClassicIndex: true}
	i.must(t, "setup")

	i.publishPriorities(t, "first", broker, quorum.Index())
	serving := i.serve(t)
	i.eventually(t, "action: published", 10)
	out := i.must(t, "stream", "first")
	if places(out) == "0 1 2 3 4 5 6 7 8 9" || !strings.Contains(out, "\n9 messages with a priority, which RabbitMQ may have delivered before earlier ones\n") {
		t.Errorf("stream says\n%s", out)
	}
	if r := i.run(t, "doctor"); !strings.Contains(r.out, "9 of the newest 10 published messages have a priority") {
		t.Errorf("doctor says\n%s", r.out)
	}
	serving.stop(t)

	i.rewrite(t, "tap: {", "tap: {queue_type: classic, ")
	i.publishPriorities(t, "waiting", broker, quorum.Index())
	if r := i.run(t, "serve"); r.code != exitFailed || !strings.Contains(r.err, "tap.queue_type has changed") {
		t.Errorf("serve before setup: %+v", r)
	}
	if out := i.must(t, "setup"); !strings.Contains(out, quorum.Index()+" is emptied and replaced by "+classic.Index()) {
		t.Errorf("setup says %s", out)
	}
	i.publishPriorities(t, "second", broker, classic.Index())
	i.serve(t)
	i.eventually(t, "action: published", 30)
	if out := i.must(t, "stream", "second"); places(out) != "0 1 2 3 4 5 6 7 8 9" || strings.Contains(out, "priority") {
		t.Errorf("stream says\n%s", out)
	}
	until(t, "the management API counts the queue anew, and doctor has no errors", func() bool {
		r := i.run(t, "doctor")
		return !strings.Contains(r.out, "priority") && strings.Contains(r.out, classic.Index()+" has 0 messages") && strings.Contains(r.out, "0 errors")
	})
}

// publishPriorities publishes ten messages to a stream, whose priorities are their numbers,
// and waits until a queue has them.
func (i *installation) publishPriorities(t *testing.T, stream string, broker rabbittest.Broker, queue string) {
	t.Helper()
	for n := range 10 {
		i.send(t, i.exchange, stream, amqp.Publishing{MessageId: fmt.Sprint("m-", n), Priority: uint8(n), Body: []byte("x")})
	}
	until(t, "the copies", func() bool { return broker.Len(t, queue) == 10 })
}

// places returns the numbers of the messages that a command shows, in their order.
func places(shown string) string {
	var numbers []string
	for _, found := range regexp.MustCompile(`\bm-(\d)\b`).FindAllStringSubmatch(shown, -1) {
		numbers = append(numbers, found[1])
	}
	return strings.Join(numbers, " ")
}
