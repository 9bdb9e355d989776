package pipeline

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// A route that parks publishes a copy of its poison to its parking queue, unchanged but
// for Watership's headers, and calls the hook; an error of the hook is logged.
func TestParkingAndHook(t *testing.T) {
	t.Parallel() // most of it is waiting
	eachSetting(t, func(t *testing.T, b setting) {
		queue := rabbittest.Name(t)
		told := make(chan schemas.Event, 10)
		var calls atomic.Int32
		r := b.start(t, func(c *Config) {
			c.Routes = []Route{{
				Queue: queue, Park: true, Policy: attemptsAfter(),
				Handler: handler(func(*message.Message) error { return errBroken }),
			}}
			c.OnEvent = onPoison(func(_ context.Context, e schemas.Event) error {
				told <- e
				if calls.Add(1) == 1 {
					panic("the hook")
				}
				return errBroken
			})
		})
		for i, body := range []string{"one", "two"} {
			r.publish("", queue, amqp.Publishing{
				Body: []byte(body), Headers: amqp.Table{"n": int32(1)}, MessageId: body, Expiration: "60000",
			})
			r.waitFor(1, schemas.Poisoned)
			e := rabbittest.Receive(t, told)
			if string(e.Envelope.Body) != body || e.Queue != queue || e.Failure.Message != "broken" || e.Action != schemas.Poisoned {
				t.Errorf("the hook got %+v", e)
			}
			rabbittest.Eventually(t, "its copy is parked", func() bool { return b.Len(t, queue+".poison") == i+1 })
		}
		rabbittest.Eventually(t, "both failures of the hook are logged", func() bool { return r.log.Count("the hook for events failed") == 2 })
		if n := len(r.waitFor(2, schemas.Poisoned)); n != 2 || calls.Load() != 2 {
			t.Errorf("%d events and %d calls of the hook for 2 messages", n, calls.Load())
		}
		for i, d := range b.Take(t, queue+".poison", 2) {
			e, state, err := wire.Unwrap(schemas.FromDelivery(d))
			if err != nil || e.Properties.MessageID != []string{"one", "two"}[i] || e.Headers["n"] != int32(1) ||
				e.Properties.Expiration != "60000" || d.Expiration != "" || state.Failure.Message != "broken" || state.Queue != queue {
				t.Errorf("parked %+v %+v", d, err)
			}
		}
		r.quiet()
	})
}

// A deleted parking queue is declared again with the next message.
func TestParkingQueueComesBack(t *testing.T) {
	b := rabbittest.Newest(t)
	queue := rabbittest.Name(t)
	r := start(t, b, func(c *Config) {
		c.Routes = []Route{{
			Queue: queue, Park: true, Policy: attemptsAfter(),
			Handler: handler(func(*message.Message) error { return errBroken }),
		}}
	})
	if _, err := b.Channel(t).QueueDelete(queue+".poison", false, false, false); err != nil {
		t.Fatal(err)
	}
	r.publish("", queue, amqp.Publishing{Body: []byte("x")})
	r.wait(schemas.Poisoned)
	rabbittest.Eventually(t, "the message is parked", func() bool { return publishDelayed(t, b, queue+".poison") })
}

// Messages published by hand to queues of Watership are not lost either.
func TestStrayMessages(t *testing.T) {
	t.Parallel() // most of it is waiting
	eachSetting(t, func(t *testing.T, b setting) {
		r := b.start(t, nil)
		for _, queue := range []string{r.topology.Poison(), r.topology.Retry(), r.topology.Due()} {
			r.publish("", queue, amqp.Publishing{Body: []byte(queue)})
		}
		for _, e := range r.waitFor(3, schemas.Poisoned) {
			if e.EventID == "" || e.Fingerprint == "" || string(e.Envelope.Body) != e.Envelope.RoutingKey {
				t.Errorf("%+v", e)
			}
		}
		r.quiet()
	})
}

// A full parking queue delays no message: those that it refuses become poison as well,
// once.
func TestFullParkingQueue(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue := rabbittest.Name(t)
		parking := queue + ".poison"
		b.DeleteQueue(t, parking)
		if _, err := b.Channel(t).QueueDeclare(parking, true, false, false, false, amqp.Table{
			"x-max-length": 1, "x-overflow": "reject-publish",
		}); err != nil {
			t.Fatal(err)
		}
		told := make(chan schemas.Event, 100)
		r := start(t, b, func(c *Config) {
			c.OnEvent = onPoison(func(_ context.Context, e schemas.Event) error { told <- e; return nil })
			c.Breaker.Messages = -1
			c.Routes = []Route{{Queue: queue, Park: true, Policy: attemptsAfter(), Handler: handler(
				func(*message.Message) error { return errBroken })}}
		})
		for range 20 {
			r.publish("", queue, amqp.Publishing{})
		}
		for range 20 {
			rabbittest.Receive(t, told)
		}
		r.quiet()
		if events := len(r.waitFor(20, schemas.Poisoned)); events != 20 {
			t.Errorf("%d events of 20 messages", events)
		}
	})
}

// A panic over the result of a handler is a failure and no endless loop.
func TestPanicsOverWhatAHandlerReturns(t *testing.T) {
	b := rabbittest.Newest(t)
	failing := func(err error) message.HandlerFunc {
		return func(*message.Message) ([]*message.Message, error) { return nil, err }
	}
	for name, handle := range map[string]message.HandlerFunc{
		"a nil message":      func(*message.Message) ([]*message.Message, error) { return []*message.Message{nil}, nil },
		"a nil error":        func(*message.Message) ([]*message.Message, error) { var err *touchy; return nil, err },
		"an error's message": failing(&touchy{}),
		"an error's message the second time": func(*message.Message) ([]*message.Message, error) {
			return nil, &onceReadable{}
		},
		"an error's As":                      failing(hostile{as: func() { panic("As") }}),
		"an error's Is":                      failing(hostile{is: func() { panic("Is") }}),
		"an error's Unwrap":                  failing(hostile{unwrap: func() { panic(&touchy{}) }}),
		"the end of a goroutine by an error": failing(hostile{as: runtime.Goexit}),
		"the end of a goroutine":             func(*message.Message) ([]*message.Message, error) { runtime.Goexit(); return nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			queue := rabbittest.Name(t)
			r := start(t, b, func(c *Config) {
				c.Routes = []Route{{
					Queue: queue, Concurrency: 1, Policy: attemptsAfter(10 * time.Millisecond),
					Handler: func(msg *message.Message) ([]*message.Message, error) {
						if string(msg.Payload) == "next" {
							return nil, nil
						}
						return handle(msg)
					},
				}}
			})
			r.publish("", queue, amqp.Publishing{})
			if e := r.wait(schemas.Poisoned); e.Attempt != 2 || e.Failure.Message == "" {
				t.Errorf("%+v", e.State)
			}
			r.publish("", queue, amqp.Publishing{Body: []byte("next")})
			r.wait(schemas.Handled)
		})
	}
}

// An error that cannot be read since a method of it does not return is a failure, too,
// and others of its route go on.
func TestErrorThatIsReadWithoutEnd(t *testing.T) {
	t.Parallel() // reading an error may take seconds
	b := rabbittest.Newest(t)
	queue, release := rabbittest.Name(t), make(chan struct{})
	r := start(t, b, func(c *Config) {
		c.Routes = []Route{{
			Queue: queue, Concurrency: 1, Policy: attemptsAfter(),
			Handler: handler(func(msg *message.Message) error {
				if string(msg.Payload) == "next" {
					return nil
				}
				return hostile{is: func() { <-release }}
			}),
		}}
	})
	defer close(release)
	r.publish("", queue, amqp.Publishing{})
	if e := r.wait(schemas.Poisoned); e.Attempt != 1 || !strings.Contains(e.Failure.Message, "did not return within") {
		t.Errorf("%+v", e.State)
	}
	r.publish("", queue, amqp.Publishing{Body: []byte("next")})
	r.wait(schemas.Handled)
}

// A fault of the handlers that move messages ends with the message that it is about:
// it is poison, or kept as it is where even that fails, and others go on. Here a
// logger panics over their log lines.
func TestFaultsOfWatershipsHandlers(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue := rabbittest.Name(t)
		faults := map[string]func(){"cannot be recorded": func() { panic("the logger") }}
		const delay, pause = 50 * time.Millisecond, 77 * time.Millisecond
		r := start(t, b, func(c *Config) {
			c.ReturnPause, c.Default = pause, attemptsAfter()
			declareFor(t, b, wire.DelaysOf(c.Topology).Queue(pause), amqp.Table{"x-max-length": int32(0)}) // not as it is to be
			c.Logger = slog.New(faultyLog{c.Logger.Handler(), faults})
			c.Routes = []Route{{Queue: queue, Handler: handler(func(*message.Message) error { return nil })}}
		})
		parentKeys, exclusive := b.Channel(t), rabbittest.Name(t)
		_, err := parentKeys.QueueDeclare(exclusive, true, false, true, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.pipeline.reconciler.DeclareDelay(t.Context(), delay); err != nil {
			t.Fatal(err)
		}
		b.DeleteQueue(t, wire.DelaysOf(r.topology).Queue(delay))
		e := schemas.Envelope{RoutingKey: exclusive, Body: []byte("x")}
		state := schemas.State{Fingerprint: e.Fingerprint(), Message: "m"}
		r.publish(r.topology.Direct(), wire.DelaysOf(r.topology).Queue(delay), wire.DefaultFrameMax.Wrap(e, state.Failed(time.Now(), 0, exclusive, schemas.Failure{Message: "first"})))
		poisoned := r.wait(schemas.Poisoned)
		if poisoned.Queue != exclusive || poisoned.Attempt != 1 || !strings.Contains(poisoned.Failure.Message, "panic: the logger") ||
			!strings.Contains(poisoned.Failure.Message, "first") || string(poisoned.Envelope.Body) != "x" {
			t.Errorf("%+v", poisoned)
		}
		r.publish("", queue, amqp.Publishing{})
		r.wait(schemas.Handled)
		r.quiet()
	})
}

// Poison because of a fault has had no attempt since it was delivered: a time that the message
// brought is of another attempt.
func TestFaultOfARouteHasNoTimeOfAnAttempt(t *testing.T) {
	m := newModel(t, 0)
	e := schemas.Envelope{RoutingKey: "own", Body: []byte("x")}
	brought := schemas.State{Queue: "own", Fingerprint: e.Fingerprint(), Message: "m", Attempt: 1, Started: m.broker.now}
	arrived := schemas.FromDelivery(amqp.Delivery{
		Exchange: m.broker.topology.Return(), RoutingKey: "own", Body: e.Body, Headers: wire.DefaultFrameMax.Wrap(e, brought).Headers,
	})
	h := &routeHandler{messageFlow: m.flow(), route: Route{Queue: "own"}}
	if err := h.poisonMessage(t.Context(), arrived, errBroken); err != nil {
		t.Fatal(err)
	}
	_, state, err := wire.Unwrap(schemas.FromDelivery(m.broker.queues[m.broker.topology.Poison()][0]))
	if err != nil || state.Message != "m" || !state.Started.IsZero() {
		t.Errorf("%+v %v", state, err)
	}
}

func TestFaultsOfThePoisonHandler(t *testing.T) {
	for name, fault := range map[string]func(){"a panic": func() { panic("the logger") }, "the end of a goroutine": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			b := rabbittest.Newest(t)
			queue := rabbittest.Name(t)
			declareFor(t, b, schemas.Topology{}.Parking(queue), amqp.Table{"x-max-length": int32(0), "x-overflow": "reject-publish"})
			r := start(t, b, func(c *Config) {
				c.Logger = slog.New(faultyLog{c.Logger.Handler(), map[string]func(){"without a parked copy": fault}})
				c.Routes = []Route{{Queue: queue, Park: true, Policy: attemptsAfter(), Handler: handler(func(*message.Message) error { return errBroken })}}
			})
			r.publish("", queue, amqp.Publishing{Body: []byte("x")})
			kept := b.Take(t, r.topology.Unstorable(), 1)[0]
			e, state, err := wire.Unwrap(schemas.FromDelivery(kept))
			if err != nil || string(e.Body) != "x" || state.Queue != queue || state.Fingerprint != e.Fingerprint() {
				t.Errorf("%+v %v", state, err)
			}
			r.quiet()
		})
	}
}

// faultyLog calls a fault for a log message that contains the fault's text.
type faultyLog struct {
	slog.Handler
	faults map[string]func()
}

func (l faultyLog) Handle(ctx context.Context, record slog.Record) error {
	for text, fault := range l.faults {
		if strings.Contains(record.Message, text) {
			fault()
		}
	}
	return l.Handler.Handle(ctx, record)
}

func (l faultyLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return faultyLog{l.Handler.WithAttrs(attrs), l.faults}
}

// A hook that does not return blocks no message for longer than its time-out.
func TestHookThatDoesNotReturn(t *testing.T) {
	b := rabbittest.Newest(t)
	queue, release := rabbittest.Name(t), make(chan struct{})
	r := start(t, b, func(c *Config) {
		c.OnEventTimeout = time.Millisecond
		c.OnEvent = onPoison(func(context.Context, schemas.Event) error { <-release; return nil })
		c.Routes = []Route{{Queue: queue, Policy: attemptsAfter(), Handler: handler(func(*message.Message) error { return errBroken })}}
	})
	defer close(release)
	r.publish("", queue, amqp.Publishing{})
	r.wait(schemas.Poisoned)
	rabbittest.Eventually(t, "the hook is given up", func() bool { return r.log.Count("the hook for events failed") == 1 })
	r.quiet()
}

// touchy is an error that cannot be read.
type touchy struct{ reason *string }

func (e *touchy) Error() string { return *e.reason }

// onceReadable is an error whose message can be read once.
type onceReadable struct{ read bool }

func (e *onceReadable) Error() string {
	if e.read {
		panic("read before")
	}
	e.read = true
	return "once"
}

// hostile is an error whose methods call its fields.
type hostile struct{ as, is, unwrap func() }

func (hostile) Error() string { return "hostile" }

func (e hostile) As(any) bool   { run(e.as); return false }
func (e hostile) Is(error) bool { run(e.is); return false }
func (e hostile) Unwrap() error { run(e.unwrap); return nil }

func run(f func()) {
	if f != nil {
		f()
	}
}

// A panic of the hook for hanging handlers does not end the process.
func TestPanicOfTheHookForHangingHandlers(t *testing.T) {
	b := rabbittest.Newest(t)
	queue, release := rabbittest.Name(t), make(chan struct{})
	r := start(t, b, func(c *Config) {
		c.OnHang = func(retry.Attempt) { panic("the hook") }
		c.Routes = []Route{{Queue: queue, Timeout: time.Millisecond, Handler: handler(
			func(*message.Message) error { <-release; return nil })}}
	})
	r.publish("", queue, amqp.Publishing{})
	rabbittest.Eventually(t, "the panic is logged", func() bool { return r.log.Count("the hook for hanging handlers failed") == 1 })
	close(release)
	r.wait(schemas.Handled)
}
