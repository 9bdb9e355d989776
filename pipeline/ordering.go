package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/pipeline/internal/admission/ordering"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Ordering makes messages wait that fail since an earlier message of their key is not handled
// yet: as soon as it is, they have their next attempt, without having lost one. The process
// knows the messages that it has, that wait for their next attempt, and that it has given up
// within the time Within; Open adds the messages of other processes.
type Ordering struct {
	// Class is the class of errors whose messages wait.
	Class string

	// Key returns the key of a message; "": it waits for none.
	Key func(schemas.Envelope) string

	// Sequence returns the place of a message among the messages of its key, from 1; 0: it has none.
	// Nil: messages have the order of their arrival.
	Sequence func(schemas.Envelope) int64

	// Within bounds the wait, from the first failure of a message; then its policy decides.
	// Zero: 10 min.
	Within time.Duration

	// Open reports whether messages of a key have failed at the queue of the route and were
	// neither handled nor discarded since, of which earlier returns true for the envelope and the time of the
	// first failure; the one with the fingerprint is left out. It is called every few seconds for
	// each message that waits. Nil: messages that the process does not know are not waited for.
	Open func(ctx context.Context, key, fingerprint string, earlier func(e schemas.Envelope, failed time.Time) bool) (bool, error)
}

const (
	defaultOrderingWithin = 10 * time.Minute
	orderingRoom          = 256 // messages that may wait in the process
)

// errEarlier begins the error of a message that waits for an earlier one.
var errEarlier = errors.New("waits for")

func (o Ordering) validate() error {
	if (o.Key == nil) != (o.Class == "") || o.Within < 0 {
		return errors.New("Ordering: expected a Class and a Key, and a Within that is not negative")
	}
	return nil
}

// newLine returns the messages of a route by their key; nil without ordering.
func (h *routeHandler) newLine() *ordering.Line {
	o := h.route.Ordering
	if o.Key == nil {
		return nil
	}
	cfg := ordering.Config{Handlers: h.route.Concurrency, Room: orderingRoom, Within: o.Within}
	if o.Open != nil {
		cfg.Open = func(ctx context.Context, w ordering.Waiting) (bool, error) {
			return o.Open(ctx, w.Key, w.Fingerprint, func(e schemas.Envelope, failed time.Time) bool { return h.isEarlier(e, failed, w) })
		}
	}
	return ordering.New(cfg, h.now)
}

// isEarlier reports whether a message that failed is earlier than one that waits: one with a sequence
// number comes before those without. Two messages are never both earlier, or they would wait
// for each other.
func (h *routeHandler) isEarlier(e schemas.Envelope, failed time.Time, than ordering.Waiting) bool {
	sequence := max(0, h.sequenceOf(e))
	switch {
	case sequence > 0 && than.Sequence > 0:
		return sequence < than.Sequence
	case sequence > 0 || than.Sequence > 0:
		return sequence > 0
	}
	return failed.Before(than.First)
}

// sequenceOf returns the sequence number of a message; 0 if it has none.
func (h *routeHandler) sequenceOf(e schemas.Envelope) int64 {
	of := h.route.Ordering.Sequence
	if of == nil {
		return 0
	}
	sequence, _ := usercode.CallWithin(h.goroutines, readTimeout, func() (int64, error) { return of(e), nil })
	return sequence
}

type ticketKey struct{}

// ticketOf returns the ticket of a delivery; nil without ordering.
func ticketOf(ctx context.Context) *ordering.Ticket {
	ticket, _ := ctx.Value(ticketKey{}).(*ordering.Ticket)
	return ticket
}

// arriveInLine is called with each message in the order of the queue.
func (h *routeHandler) arriveInLine(msg *message.Message) (leave func()) {
	ctx := msg.Context()
	verified, err := usercode.Recover(func() (schemas.VerifiedState, error) { return h.verify(ctx) })
	if err != nil {
		return func() {}
	}
	ticket := h.line.Arrive(ordering.Arrival{
		Key: h.keyOf(verified.Envelope, h.route.Ordering.Key), Fingerprint: verified.State.Fingerprint, ID: verified.Envelope.Properties.MessageID, Sequence: h.sequenceOf(verified.Envelope), Position: verified.State.Position,
	})
	msg.SetContext(context.WithValue(ctx, ticketKey{}, ticket))
	return ticket.Leave
}

// attemptInOrder calls the handler, and once more whenever it failed with the class of the ordering
// and an earlier message was handled. stopped is true if the message goes back to the queue.
func (h *routeHandler) attemptInOrder(ctx context.Context, msg *message.Message, verified *schemas.VerifiedState, epoch int) (produced []*message.Message, why error, stopped bool) {
	ticket := ticketOf(ctx)
	outcome, why := ticket.Repeat(ctx, ordering.Attempts{
		Attempt: func() (err error) { produced, err = h.attempt(msg, *verified); return err },
		IsEarly: func(err error) bool { return h.classOf(err, verified.Envelope) == h.route.Ordering.Class },
		// A message that is handled alone keeps the others out, also the one that it waits for.
		First: &verified.State.FirstFailed, Recovering: func() bool { return verified.State.Suspect || h.breaker.Recovering() },
		Paused: func() (bool, <-chan struct{}) {
			held, changed := h.held.State()
			opened, _ := h.breaker.Outage()
			return held || !opened.IsZero() && h.breaker.Begin() != epoch, changed
		},
		Stands: func(why error, until time.Time) {
			if err := h.recordStanding(ctx, verified, h.earlierError(ticket, verified.Envelope, why), until); err != nil && ctx.Err() == nil {
				h.logger.Warn("the event of a message that waits for an earlier one is not published", "queue", h.route.Queue, "error", err)
			}
		},
	})
	if outcome == ordering.Later {
		why = retry.After(ordering.Pause, h.earlierError(ticket, verified.Envelope, why))
	}
	return produced, why, outcome == ordering.Stopped
}

// earlierError names what a message waits for that failed with an error.
func (h *routeHandler) earlierError(t *ordering.Ticket, e schemas.Envelope, why error) error {
	name := "an earlier message"
	if id := t.Earlier(); id != "" {
		name = fmt.Sprintf("message %q", id)
	}
	return fmt.Errorf("%w %s of key %q: %w", errEarlier, name, h.keyOf(e, h.route.Ordering.Key), why)
}

// recordStanding publishes the event of a message that waits in the process for an earlier one, until a
// time. It gets its instance id by that.
func (h *routeHandler) recordStanding(ctx context.Context, verified *schemas.VerifiedState, why error, until time.Time) error {
	if verified.State.Message == "" {
		verified.State.Message = h.newID()
	}
	state := verified.State
	state.EventID, state.Queue, state.Time, state.Duration = "", h.route.Queue, h.now(), 0
	state.Delay = until.Sub(state.Time).Truncate(time.Millisecond)
	state.Failure = h.classify(h.route, *h.route.Policy, why, state, verified.Envelope.Headers).failure.Failure
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	return h.publishEvent(ctx, schemas.RetryScheduled, verified.Envelope, state)
}

// classOf returns the class of an error, by which the policy would decide.
func (h *routeHandler) classOf(why error, e schemas.Envelope) string {
	class, _ := usercode.CallWithin(h.goroutines, readTimeout, func() (string, error) {
		_, classified := h.route.classifier.Classify(h.route.Queue, e.Headers, why)
		if retry.IsPermanent(why) {
			return "", nil
		}
		return retry.ClassOf(classified), nil
	})
	return class
}
