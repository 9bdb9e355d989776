package pipeline

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// deepArray is an array of names and of an element that no client reads, which keeps
// RabbitMQ from nothing.
func deepArray(names ...string) []any {
	deep := []any{}
	for range 40 {
		deep = []any{deep}
	}
	array := []any{deep}
	for _, name := range names {
		array = append(array, name)
	}
	return array
}

// TestCCReachesNoOtherQueue: what a publisher writes into CC and BCC is obeyed where
// the publisher publishes, and nowhere where Watership does.
func TestCCReachesNoOtherQueue(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		exchange, victim, route := topicExchange(t, b), b.Queue(t, nil), rabbittest.Name(t)
		r := start(t, b, func(c *Config) {
			c.Routes = []Route{{
				Queue: route, Bind: []Binding{{exchange, "#"}}, Policy: attemptsAfter(50*time.Millisecond, 50*time.Millisecond),
				Handler: handler(func(*message.Message) error { return errBroken }), Park: true,
			}}
		})
		attacks := map[string]amqp091.Table{
			"readable":   {"CC": []any{victim, route}},
			"unreadable": {"CC": deepArray(victim, route)},
			"of ours":    {"watership-cc": []any{victim, route}, "watership-v": int64(1), "watership-queue": route},
			"set aside":  {"unreadable-headers": []byte("\x02CCA\x00\x00\x00\x0d" + "S\x00\x00\x00\x08" + "abcdefgh")},
		}
		for name, headers := range attacks {
			r.publish(exchange, "k", amqp091.Publishing{Headers: headers, Body: []byte(name)})
		}
		for _, e := range r.waitFor(len(attacks), schemas.Poisoned) {
			if e.Attempt != 3 {
				t.Errorf("%s was given up after %d attempts", e.Envelope.Body, e.Attempt)
			}
		}
		r.quiet()
		if n := b.Len(t, victim); n > 0 {
			d := b.Take(t, victim, 1)[0]
			t.Errorf("%d messages reached a queue of others, the first by exchange %q: %s", n, d.Exchange, d.Body)
		}
		if n := len(r.all(func(event) bool { return true })); n != 3*len(attacks) {
			t.Errorf("%d events instead of %d:\n%s", n, 3*len(attacks), r.lives())
		}
	})
}
