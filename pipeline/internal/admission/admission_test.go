package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/pipeline/internal/admission/breaker"
	"github.com/watershipmq/watership/pipeline/internal/call"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

var errBroken = errors.New("broken")

// route returns the admission of a route.
func route(t *testing.T, change func(*Config)) *Admission {
	t.Helper()
	goroutines := &usercode.Goroutines{}
	t.Cleanup(goroutines.Close)
	ids := 0
	cfg := Config{
		Queue: "orders", Concurrency: 2, Running: &Running{},
		Verify: func(ctx context.Context) (wire.VerifiedState, error) {
			e, _ := schemas.FromContext(ctx)
			return wire.VerifiedState{Envelope: e, State: schemas.State{Fingerprint: string(e.Body)}}, nil
		},
		Metrics: call.NewMetrics(nil), Goroutines: goroutines, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		NewID: func() string { ids++; return fmt.Sprint("id", ids) },
	}
	change(&cfg)
	return New(cfg, nil)
}

// delivered returns a message with headers that has arrived.
func delivered(ctx context.Context, a *Admission, body string, headers amqp.Table) *message.Message {
	msg := message.NewMessage(body, []byte(body))
	msg.SetContext(schemas.NewContext(ctx, schemas.Envelope{RoutingKey: "orders", Body: []byte(body), Headers: headers}))
	a.Arrive(msg)
	return msg
}

func run(t *testing.T, a *Admission, msg *message.Message, attempt func() error) (*Ticket, Next) {
	t.Helper()
	ticket, err := a.Ticket(msg.Context())
	if err != nil {
		t.Fatal(err)
	}
	next, err := ticket.Run(msg.Context(), attempt)
	if err != nil {
		t.Fatal(err)
	}
	return ticket, next
}

// A message of a busy key waits in a delay queue, with its place, and has no attempt.
func TestMessageOfABusyKeyWaits(t *testing.T) {
	a := route(t, func(c *Config) {
		c.Fairness = Fairness{Key: func(schemas.Envelope) string { return "k" }, PerKey: 1, Ordered: true}
	})
	first := delivered(t.Context(), a, "first", nil)
	second := delivered(t.Context(), a, "second", nil)
	ticket, next := run(t, a, first, func() error {
		waiting, next := run(t, a, second, func() error { t.Error("the second message has an attempt"); return nil })
		if next.Step != Wait || waiting.State.Delay <= 0 || waiting.State.Position == 0 || next.Unavailable != nil {
			t.Errorf("%+v, state %+v", next, waiting.State)
		}
		return errBroken
	})
	if next.Step != Attempted || !errors.Is(next.Why, errBroken) {
		t.Fatalf("%+v", next)
	}
	if err := ticket.Leaves(t.Context(), retry.Decision{Action: retry.Retry, Delay: time.Second}); err != nil || ticket.State.Position == 0 {
		t.Errorf("position %d: %v", ticket.State.Position, err)
	}
	ticket.Done(t.Context(), true)
}

// A message that a handler still has is not handled twice, and a message that was delivered too
// often without an outcome has no attempt.
func TestMessageThatMayNotStart(t *testing.T) {
	a := route(t, func(c *Config) { c.MaxDeliveries = 1 })
	lost, lose := context.WithCancel(t.Context())
	state := schemas.State{Message: "id", Fingerprint: "hangs"}
	defer a.cfg.Running.begin(lost, state.Fingerprint, state.Message, time.Now())()
	lose()
	again := &Ticket{VerifiedState: wire.VerifiedState{State: state}, of: a}
	next, err := again.Run(t.Context(), func() error { t.Error("the message has another attempt"); return nil })
	if err != nil || !errors.Is(next.Why, ErrRunning) {
		t.Errorf("%+v: %v", next, err)
	}
	crashing := delivered(t.Context(), a, "crashes", amqp.Table{"x-delivery-count": int64(1)})
	_, next = run(t, a, crashing, func() error { t.Error("the message has another attempt"); return nil })
	if next.Step != Suspected || next.Decision.Action != retry.Poison || next.Deliveries != 1 {
		t.Errorf("%+v", next)
	}
}

// A message that has waited in the process got an instance id there, which its copy at the broker does
// not have: it is recognised when its channel is lost during the next attempt.
func TestMessageThatHasWaitedIsNotHandledTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := route(t, func(c *Config) {
			c.Ordering = Ordering{
				Key: func(schemas.Envelope) string { return "k" }, Within: time.Hour,
				IsEarly: func(why error, _ schemas.Envelope) bool { return errors.Is(why, errBroken) },
				Record:  func(context.Context, wire.VerifiedState, error, time.Time) {},
			}
		})
		first := delivered(t.Context(), a, "first", nil)
		channel, lose := context.WithCancel(t.Context())
		second := delivered(channel, a, "second", nil)
		attempts, done := 0, make(chan struct{})
		go func() {
			defer close(done)
			run(t, a, second, func() error {
				if attempts++; attempts == 1 {
					return errBroken
				}
				lose()
				redelivered := schemas.State{Fingerprint: "second"}
				if _, found := a.cfg.Running.find(&redelivered, true, a.cfg.NewID); !found {
					t.Error("the handler gets the message again while it has it")
				}
				return nil
			})
		}()
		time.Sleep(time.Minute)
		ticket, _ := run(t, a, first, func() error { return nil })
		ticket.Succeeded()
		ticket.Done(t.Context(), true)
		<-done
		if attempts != 2 {
			t.Errorf("%d attempts", attempts)
		}
	})
}

// The next admission of a queue has the breaker of the former one, unless its settings changed, and
// gives the attempts back that were counted before the breaker opened.
func TestAdmissionGoesOnWithItsBreaker(t *testing.T) {
	a := route(t, func(c *Config) { c.Breaker = retry.Breaker{Messages: 2} })
	var counted []*Ticket
	for _, body := range []string{"a", "b"} {
		ticket, next := run(t, a, delivered(t.Context(), a, body, nil), func() error { return context.DeadlineExceeded })
		if ticket.Failed(breaker.Failure{Failure: schemas.Failure{Message: next.Why.Error()}, Cause: breaker.TimedOut}) {
			counted = append(counted, ticket)
		}
	}
	next := New(a.cfg, a)
	if len(counted) != 1 || next.State().Paused.IsZero() {
		t.Fatalf("%d attempts count, and the route is %+v", len(counted), next.State())
	}
	state := counted[0].State
	state.Attempt, state.Attempts = 1, make([]schemas.FailedAttempt, 1)
	next.cfg.Verify = func(context.Context) (wire.VerifiedState, error) { return wire.VerifiedState{State: state}, nil }
	if ticket, err := next.Ticket(t.Context()); err != nil || ticket.State.Attempt != 0 || len(ticket.State.Attempts) != 0 {
		t.Errorf("%+v: %v", ticket, err)
	}
	changed := a.cfg
	changed.Breaker.Messages = 3
	if other := New(changed, a); !other.State().Paused.IsZero() {
		t.Error("a breaker with other settings is open")
	}
}
