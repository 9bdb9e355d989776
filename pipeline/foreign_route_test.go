package pipeline

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// A route without a handler sets the policy and the parking of a queue that another
// program consumes. Headers of its messages decide about their retries, where the route
// names them, and have no effect with other values.
func TestRouteWithoutAHandler(t *testing.T) {
	const delay = 100 * time.Millisecond
	type outcome struct {
		attempts int
		delays   []time.Duration
	}
	repeat := func(n int, d time.Duration) (all []time.Duration) {
		for range n {
			all = append(all, d)
		}
		return all
	}
	policy := outcome{3, repeat(2, delay)}
	for name, test := range map[string]struct {
		headers amqp.Table
		want    outcome
	}{
		"no headers":         {nil, policy},
		"other headers":      {amqp.Table{"retries": int32(9)}, policy},
		"a higher limit":     {amqp.Table{"x-retry-limit": int32(4)}, outcome{5, repeat(4, delay)}},
		"a lower limit":      {amqp.Table{"x-retry-limit": "1"}, outcome{2, repeat(1, delay)}},
		"no retries":         {amqp.Table{"x-retry-limit": uint8(0)}, outcome{1, nil}},
		"retries elsewhere":  {amqp.Table{"x-retry": int64(1)}, outcome{3, repeat(1, delay)}},
		"all elsewhere":      {amqp.Table{"x-retry": "7"}, outcome{8, nil}},
		"a delay":            {amqp.Table{"x-delay": int32(200)}, outcome{3, repeat(2, 200*time.Millisecond)}},
		"a limit and delay":  {amqp.Table{"x-retry-limit": int32(1), "x-delay": int16(150)}, outcome{2, repeat(1, 150*time.Millisecond)}},
		"a negative limit":   {amqp.Table{"x-retry-limit": int32(-1)}, policy},
		"too high a limit":   {amqp.Table{"x-retry-limit": int32(1001)}, policy},
		"a limit of no type": {amqp.Table{"x-retry-limit": true}, policy},
		"a fraction":         {amqp.Table{"x-delay": 1.5}, policy},
		"too long a delay":   {amqp.Table{"x-delay": int64(86_400_001)}, policy},
		"a text":             {amqp.Table{"x-delay": "soon"}, policy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := rabbittest.Newest(t)
			queue := rabbittest.Name(t)
			r := start(t, b, func(c *Config) {
				c.Default = attemptsAfter(time.Hour)
				c.Routes = []Route{{
					Queue: queue, Policy: attemptsAfter(delay, delay), Park: true,
					Headers: retry.Headers{Limit: "x-retry-limit", Count: "x-retry", Delay: "x-delay"},
				}}
			})
			declareFor(t, b, queue, amqp.Table{"x-dead-letter-exchange": r.topology.Retry()})
			rejecting(t, b, queue)
			r.publish("", queue, amqp.Publishing{Headers: test.headers, Body: []byte("x")})
			poisoned := r.wait(schemas.Poisoned)
			got := outcome{attempts: poisoned.Attempt}
			for _, e := range r.all(ofQueue(queue, schemas.RetryScheduled)) {
				got.delays = append(got.delays, e.Delay)
			}
			if fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("%v; expected %v", got, test.want)
			}
			parked := b.Take(t, schemas.Topology{}.Parking(queue), 1)[0]
			if e, _, err := wire.Unwrap(schemas.FromDelivery(parked)); err != nil || string(e.Body) != "x" {
				t.Errorf("parked %+v %v", e, err)
			}
		})
	}
}

func TestRouteWithoutAHandlerIsChecked(t *testing.T) {
	for want, route := range map[string]Route{
		`the route of queue "a" has bindings and no handler: expected none, since another program consumes and binds the queue`: {
			Queue: "a", Bind: []Binding{{Exchange: "shop"}},
		},
		`the route of queue "a" has a handler and Headers: expected none, since its handler returns errors of package retry`: {
			Queue: "a", Handler: handler(nil), Headers: retry.Headers{Delay: "x-delay"},
		},
	} {
		if _, err := New(Config{Connection: rabbitmq.Connection{URL: "amqp://localhost"}, Standalone: true, Routes: []Route{route}}); err == nil || err.Error() != want {
			t.Errorf("got\n%v\nwant\n%s", err, want)
		}
	}
}
