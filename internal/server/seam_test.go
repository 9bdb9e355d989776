package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/time/rate"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

// seam is a subscription under load whose parts are killed.
type seam struct {
	*servertest.Installation
	broker     *rabbittest.Proxy          // between serve and RabbitMQ
	away, back func()                     // of the store
	serves     []*servertest.Installation // of the same configuration
	processes  []*servertest.Process
	target     string
	faults     int

	mu         sync.Mutex     // guards the fields below
	positions  map[int]string // of the first delivery, by message
	deliveries int
}

// Between history and live there is no gap and no repeat without the position of the first
// delivery, while serve, its connections to RabbitMQ, and the store end at random moments.
func TestSeam(t *testing.T) {
	servertest.OnEither(t, func(t *testing.T, p servertest.Parts) { newSeam(t, p).run(t, 4_000, 400, 6) })
}

// TestSoakSeam is TestSeam with 200,000 messages on every broker.
func TestSoakSeam(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("WATERSHIP_TEST_SOAK is not set")
	}
	rabbittest.Each(t, func(t *testing.T, broker rabbittest.Broker) {
		newSeam(t, servertest.Around(t, broker)).run(t, 200_000, 1_500, 60)
	})
}

func newSeam(t *testing.T, p servertest.Parts) *seam {
	service := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusOK })
	s := &seam{Installation: p.Install(t, service.URL), target: rabbittest.Name(t), positions: map[int]string{}}
	s.Rewrite(t, `key: "#"`, "key: handled")
	s.Must(t, "setup")
	s.away, s.back = p.Breakable(t, s.Installation)
	s.broker = p.Broker.Proxy(t)
	s.Rewrite(t, fmt.Sprintf("url: %q, management_url", p.Broker.URL), fmt.Sprintf("url: %q, management_url", s.broker.URL))
	s.serves = []*servertest.Installation{s.Installation}
	if p.Kind != "SQLite" { // a file has one serve
		other := *s.Installation
		other.Config, other.Listen = filepath.Join(t.TempDir(), "watership.yaml"), rabbittest.FreeAddress(t)
		text, err := os.ReadFile(s.Config)
		if err == nil {
			err = os.WriteFile(other.Config, []byte(strings.ReplaceAll(string(text), s.Listen, other.Listen)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.serves = append(s.serves, &other)
	}
	for _, serve := range s.serves {
		s.processes = append(s.processes, serve.Serve(t))
	}
	ch := p.Broker.Channel(t)
	if _, err := ch.QueueDeclare(s.target, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Broker.DeleteQueue(t, s.target) })
	return s
}

// run publishes n messages, half of them before the subscription begins, and checks the
// deliveries.
func (s *seam) run(t *testing.T, n, perSecond, faults int) {
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	work.Go(func() { s.consume(ctx, t, 2*perSecond) })
	s.publish(t, 0, n/2, 10*perSecond)
	s.Must(t, "subscribe", "seam", "destination.name: "+s.Exchange, "--from", "start", "--to-queue", s.target, "--max-backlog", "100")
	published := make(chan struct{})
	work.Go(func() {
		defer close(published)
		s.publish(t, n/2, n, perSecond)
	})
	random := rand.New(rand.NewPCG(27, uint64(n)))
	for range faults {
		s.awaitDeliveries(t, 50+random.IntN(n/faults), n)
		s.fault(t, random)
	}
	<-published
	deadline := time.Now().Add(3 * time.Minute)
	for missing := s.missing(n); len(missing) > 0; missing = s.missing(n) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d messages were not delivered, such as %d\n%s", len(missing), n, missing[0], s.describe(t))
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Logf("%d messages, %d faults: no gap; %d deliveries, so %d repeats", n, s.faults, s.deliveries, s.deliveries-n)
}

// awaitDeliveries waits for more deliveries, so that a fault falls among them, or until none
// is missing.
func (s *seam) awaitDeliveries(t *testing.T, more, n int) {
	before := s.delivered()
	servertest.Until(t, "deliveries", func() bool { return s.delivered() >= before+more || len(s.missing(n)) == 0 })
}

func (s *seam) delivered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deliveries
}

// describe describes the subscription for a failure.
func (s *seam) describe(t *testing.T) string {
	r := s.Installation.Run(t, "subscriptions", "show", "seam")
	return r.Out + r.Err
}

// publish publishes the messages from one number to another until the broker has confirmed
// them.
func (s *seam) publish(t *testing.T, from, to, perSecond int) {
	publisher := s.Publisher(t)
	pace := rate.NewLimiter(rate.Limit(perSecond), 50)
	var unconfirmed sync.WaitGroup
	defer unconfirmed.Wait()
	for n := from; n < to; n++ {
		if err := pace.Wait(t.Context()); err != nil {
			t.Error(err)
			return
		}
		e := schemas.Envelope{
			Properties: schemas.Properties{MessageID: fmt.Sprintf("m-%06d", n), DeliveryMode: amqp.Persistent},
			Headers:    amqp.Table{"n": int64(n)}, Body: fmt.Appendf(nil, `{"n": %d}`, n),
		}
		pending, err := publisher.Send(t.Context(), rabbit.Message{Exchange: s.Exchange, RoutingKey: "k", Publishing: e.Publishing()})
		if err != nil {
			t.Error(err)
			return
		}
		unconfirmed.Go(func() {
			if err := pending.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// fault ends a part, and brings it back.
func (s *seam) fault(t *testing.T, random *rand.Rand) {
	s.faults++
	switch random.IntN(4) {
	case 0, 1:
		i := random.IntN(len(s.processes))
		s.processes[i].Kill(t)
		s.processes[i] = s.serves[i].Start(t)
	case 2:
		s.broker.Cut()
		time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
		s.broker.Mend()
	case 3:
		s.away()
		time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
		s.back()
	}
}

// consume takes the deliveries until ctx ends, slowly enough for history to last while parts
// are killed.
func (s *seam) consume(ctx context.Context, t *testing.T, perSecond int) {
	conn, err := amqp.Dial(s.Installation.Broker.URL)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Qos(50, 0, false)
	}
	if err != nil {
		t.Error(err)
		return
	}
	deliveries, err := ch.ConsumeWithContext(ctx, s.target, "", false, false, false, false, nil)
	if err != nil {
		t.Error(err)
		return
	}
	last := int64(0) // sequence of the newest position
	pace := rate.NewLimiter(rate.Limit(perSecond), 50)
	for d := range deliveries {
		if pace.Wait(ctx) != nil {
			return
		}
		s.take(t, d, &last)
		_ = d.Ack(false)
	}
}

func (s *seam) take(t *testing.T, d amqp.Delivery, last *int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliveries++
	n, _ := d.Headers["n"].(int64)
	position, _ := d.Headers[subscription.PositionHeader].(string)
	parsed, err := subscription.ParsePosition(position)
	first, repeated := s.positions[int(n)]
	switch {
	case err != nil || d.Headers[subscription.NameHeader] != "seam" || d.MessageId != fmt.Sprintf("m-%06d", n):
		t.Errorf("message %s has the headers %v", d.MessageId, d.Headers)
	case repeated && first != position:
		t.Errorf("message %d was delivered with the positions %s and %s", n, first, position)
	case !repeated && parsed.Sequence <= *last:
		t.Errorf("message %d at position %s was delivered after position %d", n, position, *last)
	}
	if !repeated {
		s.positions[int(n)], *last = position, max(*last, parsed.Sequence)
	}
}

// missing returns the messages without a delivery.
func (s *seam) missing(n int) (list []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range n {
		if _, found := s.positions[i]; !found {
			list = append(list, i)
		}
	}
	return list
}
