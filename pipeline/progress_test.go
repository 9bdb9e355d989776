package pipeline

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// A handler finds the progress of the attempts before, also of those that did not count or
// said nothing, and a message without progress has none.
func TestProgressOfHandlers(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		var mu sync.Mutex
		got := map[string][]string{}
		queue := rabbittest.Name(t)
		r := start(t, b, func(c *Config) {
			c.Routes = []Route{{
				Queue: queue, Policy: attemptsAfter(slices.Repeat([]time.Duration{50 * time.Millisecond}, 4)...),
				Handler: handler(func(msg *message.Message) error {
					mu.Lock()
					defer mu.Unlock()
					name := string(msg.Payload)
					got[name] = append(got[name], retry.AttemptFrom(msg.Context()).Progress)
					if n := len(got[name]); name == "long" && n <= 4 {
						return []error{
							retry.Progress("page 1", errBroken), errBroken, retry.Unavailable(retry.Progress("page 2", errBroken)), retry.Progress("", errBroken),
						}[n-1]
					}
					if len(got[name]) == 1 {
						return errBroken
					}
					return nil
				}),
			}}
		})
		for _, name := range []string{"long", "other"} {
			r.publish(r.topology.Direct(), queue, amqp.Publishing{
				MessageId: name, Body: []byte(name), Headers: amqp.Table{"watership-progress": "forged", "watership-queue": queue},
			})
		}
		r.waitFor(2, schemas.Handled)
		mu.Lock()
		defer mu.Unlock()
		want := map[string][]string{"long": {"", "page 1", "page 1", "page 2", ""}, "other": {"", ""}}
		for name := range want {
			if !slices.Equal(got[name], want[name]) {
				t.Errorf("%s: %q, want %q", name, got[name], want[name])
			}
		}
	})
}
