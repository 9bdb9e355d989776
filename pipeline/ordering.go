package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/internal/wire"
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

const defaultOrderingWithin = 10 * time.Minute

func (o Ordering) validate() error {
	if (o.Key == nil) != (o.Class == "") || o.Within < 0 {
		return errors.New("Ordering: expected a Class and a Key, and a Within that is not negative")
	}
	return nil
}

// isEarly reports whether an attempt at a message failed since an earlier one is not handled yet.
func (h *routeHandler) isEarly(why error, e schemas.Envelope) bool {
	return h.classOf(why, e) == h.route.Ordering.Class
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

// recordWait publishes the event of a message that waits in the process for an earlier one, until a time.
func (h *routeHandler) recordWait(ctx context.Context, waiting wire.VerifiedState, why error, until time.Time) {
	state := waiting.State
	state.EventID, state.Queue, state.Time, state.Duration = "", h.route.Queue, h.now(), 0
	state.Delay = until.Sub(state.Time).Truncate(time.Millisecond)
	state.Failure = h.classify(h.route, *h.route.Policy, why, state, waiting.Envelope.Headers).failure.Failure
	limited, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	if err := h.publishEvent(limited, schemas.RetryScheduled, waiting.Envelope, state); err != nil && ctx.Err() == nil {
		h.logger.Warn("the event of a message that waits for an earlier one is not published", "queue", h.route.Queue, "error", err)
	}
}
