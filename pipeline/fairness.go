package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/pipeline/internal/admission/breaker"
	"github.com/watershipmq/watership/pipeline/internal/admission/fairness"
	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Fairness divides the handlers of a route among the keys of its messages, such as the
// receivers of webhooks, so that a receiver that is slow or fails delays no other. Each key
// has a breaker as Route.Breaker says; the breaker of the route opens only if Messages keys that
// worked fail and none succeeds. A message waits in the process for a few seconds for its
// turn, and then in a delay queue, without losing an attempt. After Breaker.MaxWait it no
// longer waits for the breaker of its key.
type Fairness struct {
	// Key returns the key of a message; "": it has none, and is not limited. A panic is
	// logged, and the message has no key. Nil: no fairness.
	Key func(schemas.Envelope) string

	// Concurrency is the number of messages of one key that are handled at once. Zero: an
	// eighth of Route.Concurrency, at least 1.
	Concurrency int

	// Ordered handles the messages of a key one after the other, in the order in which they
	// arrived. While one waits for its next attempt, the later ones wait, until it is
	// handled or poison. One process at a time handles the messages of the queue, and the
	// others wait for its end. The order holds over restarts.
	Ordered bool
}

func (f Fairness) withDefaults(concurrency int) Fairness {
	switch {
	case f.Key == nil:
	case f.Ordered:
		f.Concurrency = 1
	case f.Concurrency <= 0:
		f.Concurrency = max(1, concurrency/8)
	}
	return f
}

// waitingRoom is the number of messages that may wait in the process for their turn.
func (r Route) waitingRoom() int {
	switch {
	case r.Ordering.Key != nil:
		return orderingRoom
	case r.Fairness.Key == nil:
		return 0
	}
	return max(minWaitingRoom, r.Concurrency)
}

const (
	minWaitingRoom = 256
)

// newGate returns the gate of a route; nil without fairness. The metrics are there in any case.
func (h *routeHandler) newGate() *fairness.Gate {
	of := h.route.Fairness
	paused := h.metrics.PausedKeys.WithLabelValues(h.route.Queue)
	for _, reason := range fairness.Reasons() {
		h.metrics.KeyWaits.WithLabelValues(h.route.Queue, string(reason))
	}
	if of.Key == nil {
		return nil
	}
	return fairness.New(fairness.Config{
		Concurrency: h.route.Concurrency, PerKey: of.Concurrency, Room: h.route.waitingRoom(), Ordered: of.Ordered, Breaker: *h.route.Breaker,
		Paused: func(key, why string) {
			paused.Inc()
			h.logger.Warn("key paused: its messages fail one after the other", "queue", h.route.Queue, "key", key, "error", why)
		},
		Resumed: func(key string, after time.Duration) {
			paused.Dec()
			h.logger.Info("key resumed", "queue", h.route.Queue, "key", key, "paused", after.Round(time.Millisecond))
		},
		Overdue: func(key string, due time.Time, lost bool) {
			if lost {
				h.logger.Warn("an earlier message of the key has not returned; the next ones of its key wait no longer", "queue", h.route.Queue, "key", key, "due", due)
				return
			}
			h.logger.Warn("messages of a key wait for an earlier one, which should be back", "queue", h.route.Queue, "key", key, "due", due)
		},
	}, h.now)
}

// arrival is a delivery of a route with fairness, from the subscriber to the handler.
type arrival struct {
	verified schemas.VerifiedState
	ticket   *fairness.Ticket
	epoch    int // of the route's breaker
}

type arrivalKey struct{}

func arrivalOf(ctx context.Context) (a arrival, found bool) {
	a, found = ctx.Value(arrivalKey{}).(arrival)
	return a, found
}

// arrive is called with each message in the order of the queue. A message that cannot be
// verified has no ticket: handle decides about it.
func (h *routeHandler) arrive(msg *message.Message) (leave func()) {
	switch {
	case h.line != nil:
		return h.arriveInLine(msg)
	case h.gate == nil:
		return func() {}
	}
	ctx := msg.Context()
	verified, err := usercode.Recover(func() (schemas.VerifiedState, error) { return h.verify(ctx) })
	if err != nil {
		return func() {}
	}
	ticket := h.gate.Arrive(fairness.Delivery{
		Key: h.keyOf(verified.Envelope, h.route.Fairness.Key), ID: verified.State.Fingerprint, Position: verified.State.Position, Redelivered: transport.Redelivered(ctx),
	})
	if place, ordered := ticket.Place(); ordered {
		h.places.Arrived(place)
	}
	msg.SetContext(context.WithValue(ctx, arrivalKey{}, arrival{verified, ticket, h.breaker.Begin()}))
	return ticket.Leave
}

func (h *routeHandler) keyOf(e schemas.Envelope, of func(schemas.Envelope) string) string {
	key, err := usercode.CallWithin(h.goroutines, readTimeout, func() (string, error) { return of(e), nil })
	if err != nil {
		h.logger.Error("the key of a message cannot be read; it is handled without one", "queue", h.route.Queue, "error", err)
	}
	return fairness.ShortKey(key)
}

// awaitTurn waits until the handler may be called with a message. done is true if the
// message waits in a delay queue instead, or is requeued since the route stops, an operator has paused it or the
// connection is lost. Many messages may wait then, and none is worth an error in the log.
func (h *routeHandler) awaitTurn(ctx context.Context, msg *message.Message, verified schemas.VerifiedState) (done bool, err error) {
	a, found := arrivalOf(ctx)
	if !found {
		return false, nil
	}
	exhausted := h.route.Breaker.Exhausted(0, verified.State.WaitsSince, h.now())
	wait, err := h.gate.Begin(ctx, a.ticket, exhausted)
	if held, _ := h.held.State(); err != nil || held {
		msg.Nack()
		return true, nil
	}
	if paused, _ := h.breaker.Outage(); wait.Delay == 0 && !paused.IsZero() && a.epoch != h.breaker.Begin() {
		wait = fairness.Wait{Reason: fairness.Unavailable, Delay: retry.Deferral(nil, 0).Delay}
	}
	if wait.Delay == 0 {
		return false, h.places.Write(ctx)
	}
	return true, h.waitForKey(ctx, verified, a.ticket, wait)
}

// settle is called once the handler has returned, before the message is acknowledged. A message
// without an outcome keeps its place in the order of its key.
func (h *routeHandler) settle(msg *message.Message, err error) {
	a, found := arrivalOf(msg.Context())
	if !found || err != nil || msg.Context().Err() != nil || isNacked(msg) {
		return
	}
	if a.ticket.Settle() {
		h.places.Remove(msg.Context(), a.ticket.Position())
	}
}

// waitForKey publishes a message to a delay queue that has to wait for its key. Its first
// wait for an unavailable key has an event, and no other, since there may be many.
func (h *routeHandler) waitForKey(ctx context.Context, verified schemas.VerifiedState, t *fairness.Ticket, wait fairness.Wait) error {
	h.metrics.KeyWaits.WithLabelValues(h.route.Queue, string(wait.Reason)).Inc()
	state := verified.State
	state.Queue, state.Time, state.Delay, state.Duration, state.EventID = h.route.Queue, h.now(), wait.Delay, 0, ""
	state.Deliveries, _ = deliveriesBefore(ctx, verified.State)
	if state.Message == "" {
		state.Message = h.newID()
	}
	if since, why := t.Outage(); !since.IsZero() && state.WaitsSince.IsZero() {
		state.WaitsSince = state.Time
		event := state
		event.Failure = why
		event.Failure.Message = fmt.Sprintf("waits for key %q, whose messages have failed since %s: %s", t.Key(), since.Format(time.RFC3339), why.Message)
		if err := h.publishEvent(ctx, schemas.RetryScheduled, verified.Envelope, event); err != nil {
			return err
		}
	}
	state.Position = t.Position()
	if err := h.leave(ctx, t, wait.Delay); err != nil {
		return err
	}
	return h.schedule(ctx, verified.Envelope, state, wait.Delay)
}

// leave keeps the place of a message that goes to a delay queue, for this process and the
// next one.
func (h *routeHandler) leave(ctx context.Context, t *fairness.Ticket, delay time.Duration) error {
	t.Away(delay, h.places.Reserve)
	return h.places.Write(ctx)
}

// keepPlaces keeps the places of all messages that have arrived, before some of them are requeued.
func (h *routeHandler) keepPlaces(ctx context.Context) {
	if err := h.places.Write(ctx); err != nil {
		h.logger.Warn("the places of requeued messages are not kept; they may be handled out of order", "queue", h.route.Queue, "error", err)
	}
}

// keepOrder keeps the place of a message whose attempt failed, if its key is ordered. It does
// not wait for its key otherwise.
func (h *routeHandler) keepOrder(ctx context.Context, state *schemas.State, d retry.Decision) error {
	a, found := arrivalOf(ctx)
	if state.Position = 0; !found || !h.route.Fairness.Ordered || d.Action == retry.Poison {
		return nil
	}
	state.Position = a.ticket.Position()
	return h.leave(ctx, a.ticket, d.Delay)
}

func (h *routeHandler) recordSuccess(ctx context.Context, epoch int) {
	if a, found := arrivalOf(ctx); found {
		a.ticket.Succeeded()
	}
	h.breaker.RecordSuccess(epoch)
}

// recordFailure decides by the breaker of the message's key, and by the route's breaker if
// the failure may be a sign of an outage of all keys.
func (h *routeHandler) recordFailure(ctx context.Context, epoch int, before schemas.State, f breaker.Failure) breaker.Effect {
	a, found := arrivalOf(ctx)
	if !found || a.ticket.Key() == "" {
		return h.breaker.RecordFailure(epoch, before, f)
	}
	effect, news := a.ticket.Failed(before, f)
	if !news {
		return effect
	}
	f.Key = a.ticket.Key()
	if h.breaker.RecordFailure(epoch, before, f) == breaker.AttemptReturned {
		return breaker.AttemptReturned
	}
	return effect
}
