// Package admission decides which messages of a route may start now, and which have to wait: for
// an operator or a breaker, for a turn among keys, for earlier messages of a key, since a handler
// still has the message, or since it may have ended a process. The handler of a route takes the
// Ticket of each message, starts its attempt by Ticket.Run, which reports what follows, and returns
// the results to the ticket.
package admission

import (
	"context"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/internal/topology/pause"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/pipeline/internal/admission/breaker"
	"github.com/watershipmq/watership/pipeline/internal/admission/crashloop"
	"github.com/watershipmq/watership/pipeline/internal/admission/fairness"
	"github.com/watershipmq/watership/pipeline/internal/admission/ordering"
	"github.com/watershipmq/watership/pipeline/internal/admission/placelog"
	"github.com/watershipmq/watership/pipeline/internal/call"
	"github.com/watershipmq/watership/pipeline/internal/delivery"
	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Config configures the Admission of a route.
type Config struct {
	Queue         string
	Concurrency   int           // messages that are handled at once
	Timeout       time.Duration // of an attempt; 0: none
	HangTimeout   time.Duration // of an attempt, after which its handler hangs; 0: none
	StopTimeout   time.Duration // for the attempts that run at the end of the route
	MaxDeliveries int           // without an outcome; not positive: no limit
	Breaker       retry.Breaker // of the route, and of each key
	Fairness      Fairness
	Ordering      Ordering // none with Fairness

	Paused  *pause.Switch // by an operator; nil: never
	Unknown func()        // has it asked which keys an operator holds; nil: none is held
	Running *Running      // also of former admissions of the queue

	// Verify returns the state of a message that has arrived.
	Verify func(ctx context.Context) (wire.VerifiedState, error)

	// Record records that the breaker of the route opened or closed.
	Record func(ctx context.Context, action schemas.Action, since time.Time, why schemas.Failure)

	Metrics    *call.Metrics
	Goroutines *usercode.Goroutines
	Now        func() time.Time
	NewID      func() string // instance ids of messages
	Logger     *slog.Logger
}

// Fairness divides the handlers of a route among the keys of its messages.
type Fairness struct {
	Key     func(schemas.Envelope) string // nil: no fairness
	PerKey  int                           // messages of one key that are handled at once
	Ordered bool                          // the messages of a key are handled in the order of their arrival

	Interval time.Duration // at least, between the starts of two messages of one key; 0: none

	// Places configures where the places of messages in the order of their keys are kept; its Gate,
	// Route, Standby and Logger are set by New. Nil: they are in this process alone.
	Places *placelog.Config
}

// Ordering makes messages wait that fail since an earlier one of their key is not handled yet.
type Ordering struct {
	Key      func(schemas.Envelope) string // nil: no ordering
	Sequence func(schemas.Envelope) int64  // nil: messages have the order of their arrival
	Within   time.Duration                 // of the first failure of a message, in which it waits

	// IsEarly reports whether an attempt at a message failed since an earlier one is not handled yet.
	IsEarly func(why error, e schemas.Envelope) bool

	// Record records that a message waits in the process until a time.
	Record func(ctx context.Context, waiting wire.VerifiedState, why error, until time.Time)

	// Open is as in pipeline.Ordering.
	Open func(ctx context.Context, key, fingerprint string, earlier func(e schemas.Envelope, failed time.Time) bool) (bool, error)
}

const (
	// Messages that may wait in the process for their turn.
	orderingRoom    = 256
	minFairnessRoom = 256

	// noTimeout is the stop timeout of the subscribers of a route: a breaker that opens waits for
	// no handler, and breaker.Subscriber bounds the end of the route.
	noTimeout = 10 * 365 * 24 * time.Hour

	readTimeout = 10 * time.Second // of functions that read a message
)

// Admission is the admission of one route. Its consumers have the Options, and deliver messages
// through the Subscriber.
type Admission struct {
	cfg        Config
	breaker    *breaker.Breaker
	gate       *fairness.Gate // nil: no fairness
	line       *ordering.Line // nil: no ordering
	places     *placelog.Log  // nil: none are kept
	guard      *crashloop.Guard
	subscriber *breaker.Subscriber
}

// New returns the admission of a route. It goes on with the breaker of its former one, nil for
// none, if the settings of the breaker are the same.
func New(cfg Config, former *Admission) *Admission {
	a := &Admission{cfg: cfg, guard: crashloop.New(cfg.MaxDeliveries)}
	if former != nil && former.breaker.Has(cfg.Breaker) {
		a.breaker = former.breaker
	} else {
		a.breaker = breaker.New(cfg.Breaker, cfg.Now)
	}
	a.gate, a.line = a.newGate(), a.newLine()
	if cfg.Fairness.Places != nil {
		places := *cfg.Fairness.Places
		places.Route, places.Gate, places.Standby, places.Logger = cfg.Queue, a.gate, cfg.Metrics.Standby.WithLabelValues(cfg.Queue), cfg.Logger
		a.places = placelog.New(places)
	}
	return a
}

// State is a pipeline.RouteState.
type State struct {
	Queue        string
	Paused       time.Time
	Error        string
	PausedByHand bool
	Standby      time.Time
}

// State returns the state of the route.
func (a *Admission) State() State {
	opened, why := a.breaker.Outage()
	paused, _ := a.cfg.Paused.State()
	return State{a.cfg.Queue, opened, why.Message, paused, a.places.Standby()}
}

// Wait returns once nothing of the admission runs, after the end of the route's connections.
func (a *Admission) Wait() { a.places.Wait() }

// Capacity is the number of messages that the process may have at once, handled and waiting.
func (a *Admission) Capacity() int { return a.cfg.Concurrency + a.room() }

func (a *Admission) room() int {
	switch {
	case a.cfg.Ordering.Key != nil:
		return orderingRoom
	case a.cfg.Fairness.Key != nil:
		return max(minFairnessRoom, a.cfg.Concurrency)
	}
	return 0
}

// Keys returns the keys of the route, which an operator may hold; nil without fairness.
func (a *Admission) Keys() pause.Keys {
	if a.gate == nil {
		return nil
	}
	return a.gate
}

// Options returns the options of the subscribers of the route.
func (a *Admission) Options() []transport.Option {
	options := []transport.Option{transport.StopTimeout(noTimeout), delivery.OnRequeue(a.guard.Requeued), delivery.OnArrival(a.Arrive)}
	if a.places != nil {
		options = append(options, delivery.Locked(func() delivery.Lock { return a.places.NewHold() }), delivery.BeforeRequeue(a.keepPlaces))
	}
	return options
}

// keepPlaces keeps the places of all messages that have arrived, before some of them are requeued.
func (a *Admission) keepPlaces(ctx context.Context) {
	if err := a.places.Write(ctx); err != nil {
		a.cfg.Logger.Warn("the places of requeued messages are not kept; they may be handled out of order", "queue", a.cfg.Queue, "error", err)
	}
}

// Subscriber returns the subscriber of the route, which delivers messages from two others: one of
// Capacity, and one that has a single message at once. It is called once.
func (a *Admission) Subscriber(concurrent, single message.Subscriber) *breaker.Subscriber {
	route := breaker.Route{
		Queue: a.cfg.Queue, Concurrent: concurrent, Single: single, Concurrency: a.Capacity(),
		HandlerTimeout: a.cfg.HangTimeout, StopTimeout: a.cfg.StopTimeout,
		Requeue: func(ctx context.Context) { delivery.Settle(ctx, false) },
		Record:  a.cfg.Record, Paused: a.cfg.Metrics.Paused.WithLabelValues(a.cfg.Queue), Held: a.cfg.Paused.State, Logger: a.cfg.Logger,
	}
	switch {
	case a.gate != nil:
		route.Stop = a.gate.Close
	case a.line != nil:
		route.Stop = a.line.Close
	}
	a.subscriber = breaker.NewSubscriber(route, a.breaker)
	return a.subscriber
}

// newGate returns the gate of the route; nil without fairness. The metrics are there in any case.
func (a *Admission) newGate() *fairness.Gate {
	queue, logger := a.cfg.Queue, a.cfg.Logger
	paused := a.cfg.Metrics.PausedKeys.WithLabelValues(queue)
	for _, reason := range fairness.Reasons() {
		a.cfg.Metrics.KeyWaits.WithLabelValues(queue, string(reason))
	}
	of := a.cfg.Fairness
	if of.Key == nil {
		return nil
	}
	return fairness.New(fairness.Config{
		Concurrency: a.cfg.Concurrency, PerKey: of.PerKey, Interval: of.Interval, Room: a.room(), Ordered: of.Ordered, Breaker: a.cfg.Breaker,
		Unknown: a.cfg.Unknown,
		Paused: func(key, why string) {
			paused.Inc()
			logger.Warn("key paused: its messages fail one after the other", "queue", queue, "key", key, "error", why)
		},
		Resumed: func(key string, after time.Duration) {
			paused.Dec()
			logger.Info("key resumed", "queue", queue, "key", key, "paused", after.Round(time.Millisecond))
		},
		Overdue: func(key string, due time.Time, lost bool) {
			text := "messages of a key wait for an earlier one, which should be back"
			if lost {
				text = "an earlier message of the key has not returned; the next ones of its key wait no longer"
			}
			logger.Warn(text, "queue", queue, "key", key, "due", due)
		},
	}, a.cfg.Now)
}

// newLine returns the messages of the route by their key; nil without ordering.
func (a *Admission) newLine() *ordering.Line {
	o := a.cfg.Ordering
	if o.Key == nil {
		return nil
	}
	cfg := ordering.Config{Handlers: a.cfg.Concurrency, Room: orderingRoom, Within: o.Within}
	if o.Open != nil {
		cfg.Open = func(ctx context.Context, w ordering.Waiting) (bool, error) {
			return o.Open(ctx, w.Key, w.Fingerprint, func(e schemas.Envelope, failed time.Time) bool { return w.IsAfter(a.sequenceOf(e), failed) })
		}
	}
	return ordering.New(cfg, a.cfg.Now)
}

// keyOf returns the key of a message; "" if it has none.
func (a *Admission) keyOf(e schemas.Envelope, of func(schemas.Envelope) string) string {
	key, err := usercode.CallWithin(a.cfg.Goroutines, readTimeout, func() (string, error) { return of(e), nil })
	if err != nil {
		a.cfg.Logger.Error("the key of a message cannot be read; it is handled without one", "queue", a.cfg.Queue, "error", err)
	}
	return fairness.ShortKey(key)
}

// sequenceOf returns the sequence number of a message; 0 if it has none.
func (a *Admission) sequenceOf(e schemas.Envelope) int64 {
	of := a.cfg.Ordering.Sequence
	if of == nil {
		return 0
	}
	sequence, _ := usercode.CallWithin(a.cfg.Goroutines, readTimeout, func() (int64, error) { return of(e), nil })
	return max(0, sequence)
}
