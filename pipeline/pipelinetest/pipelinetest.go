// Package pipelinetest runs the routes of a pipeline in a test, on a broker inside the process, and follows what
// becomes of each message:
//
//	func TestInvoice(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) { // in which delays pass at once
//			p := pipelinetest.Start(t, pipeline.Config{Routes: []pipeline.Route{orders()}})
//
//			order := p.Publish(schemas.Envelope{Exchange: "shop", RoutingKey: "order.paid", Body: []byte(`{"id":42}`)})
//			order.RetriedAfter(time.Second)
//			invoices := order.Handled()
//			if len(invoices) != 1 || invoices[0].Exchange != "billing" {
//				t.Errorf("%+v", invoices)
//			}
//		})
//	}
//
// Without synctest.Test the delays of policies take their time. An assertion returns with the event of a step, which the
// broker may have before it has the message in its next queue: call synctest.Wait before a look at queues.
package pipelinetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// patience is how long an event may take, beyond the delay of the attempt that it follows.
const patience = 30 * time.Second

// Pipeline is a pipeline that runs until the test ends, with its own broker.
type Pipeline struct {
	t         broker.TB
	broker    *broker.Broker
	routes    []pipeline.Route
	admin     *amqp.Connection
	publisher *rabbit.Publisher

	mu        sync.Mutex // guards the fields below
	published int
	events    []schemas.Event
	changed   chan struct{} // closed at the next event
	outgoing  map[handling][]schemas.Envelope
}

// handling is the last attempt at a message in a queue.
type handling struct{ id, queue string }

// Start runs a pipeline on a new broker until the test ends, and returns when every route consumes its queue. It sets
// Connection and Standalone of the configuration. The exchanges of Bind and Publish are topic exchanges, unless
// Config.Tap has their type. Without a Logger nothing is logged. The events of a failed test are in its output.
func Start(t broker.TB, cfg pipeline.Config) *Pipeline {
	t.Helper()
	p := &Pipeline{
		t: t, broker: broker.New(broker.Config{}), routes: cfg.Routes,
		changed: make(chan struct{}), outgoing: map[handling][]schemas.Envelope{},
	}
	t.Cleanup(func() { p.check("closing the broker", p.broker.Close()) })
	p.connect()
	p.declareExchanges(cfg)
	cfg.Connection, cfg.Standalone = p.Connection(), true
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Middleware = append([]message.HandlerMiddleware{p.observe}, cfg.Middleware...)
	cfg.OnEvent = p.record(cfg.OnEvent)
	p.run(cfg)
	return p
}

// connect opens the connections of the test.
func (p *Pipeline) connect() {
	p.t.Helper()
	var err error
	p.admin, err = amqp.DialConfig(p.broker.URL(), amqp.Config{Dial: p.broker.Dial})
	p.check("connecting", err)
	p.t.Cleanup(func() { _ = p.admin.Close() })
	conn, err := rabbit.Open(rabbit.Config{URL: p.broker.URL(), Dial: p.broker.Dial, Name: "pipelinetest", Logger: slog.New(slog.DiscardHandler)})
	p.check("connecting", err)
	p.publisher = rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	p.t.Cleanup(func() { _, _ = p.publisher.Close(), conn.Close() })
}

// sink is the exchange and the queue of the messages of handlers that reach no other queue.
const sink = "pipelinetest.outgoing"

// declareExchanges declares the exchanges of the routes that are not tapped, which the pipeline declares itself.
func (p *Pipeline) declareExchanges(cfg pipeline.Config) {
	p.t.Helper()
	p.declare(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(sink, true, false, false, false, nil)
		return errors.Join(err, ch.ExchangeDeclare(sink, amqp.ExchangeFanout, true, false, false, false, nil), ch.QueueBind(sink, "", sink, false, nil))
	})
	declared := map[string]bool{"": true}
	for _, tap := range cfg.Tap {
		declared[tap.Exchange] = true
	}
	for _, route := range cfg.Routes {
		if to := route.Publish.Exchange; !declared[to] {
			declared[to] = true
			p.DeclareExchange(to, amqp.ExchangeTopic)
		}
	}
	for _, route := range cfg.Routes {
		for _, b := range route.Bind {
			if !declared[b.Exchange] {
				declared[b.Exchange] = true
				p.declare(func(ch *amqp.Channel) error {
					return ch.ExchangeDeclare(b.Exchange, amqp.ExchangeTopic, true, false, false, false, nil)
				})
			}
		}
	}
}

// DeclareExchange declares an exchange to which a handler publishes, such as one that its messages name. They need no
// queue.
func (p *Pipeline) DeclareExchange(name, kind string) {
	p.t.Helper()
	p.declare(func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(name, kind, true, false, false, false, amqp.Table{"alternate-exchange": sink})
	})
}

func (p *Pipeline) declare(what func(*amqp.Channel) error) {
	p.t.Helper()
	ch, err := p.admin.Channel()
	p.check("opening a channel", err)
	p.check("declaring an exchange", what(ch))
	_ = ch.Close()
}

// run runs the pipeline until the test ends.
func (p *Pipeline) run(cfg pipeline.Config) {
	p.t.Helper()
	started, err := pipeline.New(cfg)
	p.check("starting the pipeline", err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- started.Run(ctx) }()
	p.t.Cleanup(func() {
		cancel()
		p.check("running the pipeline", <-ended)
	})
	select {
	case <-started.Running():
	case err := <-ended:
		ended <- nil
		p.t.Fatalf("the pipeline ended: %v", err)
	}
}

// Connection is to the broker of the pipeline, for an indexer or a replayer in the same test.
func (p *Pipeline) Connection() rabbitmq.Connection {
	return rabbitmq.Connection{URL: p.broker.URL(), Dial: p.broker.Dial}
}

// Broker returns the broker, for consumers of the test and for faults (Broker.Inject).
func (p *Pipeline) Broker() *broker.Broker { return p.broker }

// Publish publishes a message, and fails the test if that reaches no queue. An empty exchange is the default one, whose
// routing keys are names of queues. A message without a message id gets one.
func (p *Pipeline) Publish(e schemas.Envelope) *Message {
	p.t.Helper()
	p.mu.Lock()
	p.published++
	number, seen := p.published, len(p.events)
	p.mu.Unlock()
	e.Properties.MessageID = cmp.Or(e.Properties.MessageID, fmt.Sprint("message-", number))
	m := &Message{pipeline: p, ID: e.Properties.MessageID, seen: seen}
	err := p.publisher.Publish(context.Background(), rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: e.Publishing()})
	p.check("publishing "+m.ID, err)
	return m
}

// Event waits for an event that match accepts, also among earlier ones, such as the event of a paused route.
func (p *Pipeline) Event(match func(schemas.Event) bool) schemas.Event {
	p.t.Helper()
	e, _ := p.wait("an event that matches", 0, patience, match)
	return e
}

// wait waits for an event from a position on, and returns its position, too.
func (p *Pipeline) wait(what string, from int, within time.Duration, match func(schemas.Event) bool) (schemas.Event, int) {
	p.t.Helper()
	late := time.After(within)
	for {
		p.mu.Lock()
		found, changed := p.events[from:], p.changed
		p.mu.Unlock()
		for i, e := range found {
			if match(e) {
				return e, from + i
			}
		}
		from += len(found)
		select {
		case <-changed:
		case <-late:
			p.t.Fatalf("%s: not within %s; there were\n%s", what, within, p)
		}
	}
}

// String lists the events so far, one on each line, with their times after the first one.
func (p *Pipeline) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var text strings.Builder
	for _, e := range p.events {
		fmt.Fprintf(&text, "%s later: %s of %s at queue %s", e.Time.Sub(p.events[0].Time), e.Action, e.Envelope.Properties.MessageID, e.Queue)
		if e.Failure.Message != "" {
			fmt.Fprintf(&text, ", attempt %d: %s", e.Attempt, e.Failure.Message)
		}
		text.WriteString("\n")
	}
	return text.String()
}

// record returns a hook that keeps the events, and calls the one of the user, which may be nil.
func (p *Pipeline) record(user func(context.Context, schemas.Event) error) func(context.Context, schemas.Event) error {
	return func(ctx context.Context, e schemas.Event) error {
		p.mu.Lock()
		p.events = append(p.events, e)
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
		if user == nil {
			return nil
		}
		return user(ctx, e)
	}
}

// observe keeps the messages that a handler returns, as they are published.
func (p *Pipeline) observe(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		produced, err := next(msg)
		if err != nil {
			return produced, err
		}
		attempt := retry.AttemptFrom(msg.Context())
		handled, _ := schemas.FromContext(msg.Context())
		var sent []schemas.Envelope
		for i, returned := range produced {
			if e, err := pipeline.OutgoingEnvelope(msg.Context(), returned, i, p.publishOf(attempt.Queue)); err == nil { // else the attempt fails
				sent = append(sent, e)
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.outgoing[handling{handled.Properties.MessageID, attempt.Queue}] = sent
		return produced, nil
	}
}

// publishOf returns Publish of the route of a queue.
func (p *Pipeline) publishOf(queue string) pipeline.Binding {
	for _, route := range p.routes {
		if route.Queue == queue {
			return route.Publish
		}
	}
	return pipeline.Binding{}
}

func (p *Pipeline) check(what string, err error) {
	p.t.Helper()
	if err != nil && !errors.Is(err, broker.ErrClosed) {
		p.t.Fatalf("%s: %v", what, err)
	}
}
