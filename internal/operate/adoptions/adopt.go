package adoptions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// Adopter takes in the messages of one error queue.
type Adopter struct {
	Connection *rabbit.Connection
	Publisher  *rabbit.Publisher
	Topology   schemas.Topology
	Format     Format

	Queue string // the error queue
	Of    string // the queue whose consumer failed; "": the messages or the name of the error queue say it
	Limit int    // most messages; 0: those that the queue has at the beginning

	// Follow takes in messages until the context ends, in place of the messages that are there at the beginning.
	Follow bool
}

// Result counts messages of an error queue.
type Result struct {
	Failures int           `json:"failures" doc:"Messages that were taken in, or would be"`
	Groups   []OriginGroup `json:"groups" nullable:"false" doc:"The failures by queue, exchange and error type, at most 1000 groups"`

	// Unreadable counts messages that are of another form, which stay in the queue; Cause
	// is the reason for the first of them.
	Unreadable int    `json:"unreadable" doc:"Messages of another form, which stay in the queue"`
	Cause      string `json:"cause,omitempty" doc:"Why the first of them cannot be read"`
}

// OriginGroup counts the failures of one queue with one error type.
type OriginGroup struct {
	Queue     string `json:"queue"`
	Exchange  string `json:"exchange,omitempty" doc:"Of the origin; none: the queue itself"`
	ErrorType string `json:"error_type"`
	Failures  int    `json:"failures"`
}

func (r *Result) add(f Failure) {
	r.Failures++
	i := slices.IndexFunc(r.Groups, func(g OriginGroup) bool {
		return g.Queue == f.Queue && g.Exchange == f.Message.Exchange && g.ErrorType == f.ErrorType
	})
	switch {
	case i >= 0:
		r.Groups[i].Failures++
	case len(r.Groups) < maxGroups:
		r.Groups = append(r.Groups, OriginGroup{f.Queue, f.Message.Exchange, f.ErrorType, 1})
	}
}

func (r *Result) unreadable(err error) {
	if r.Unreadable++; r.Cause == "" {
		r.Cause = err.Error()
	}
}

func (r *Result) sort() {
	if r.Groups == nil {
		r.Groups = []OriginGroup{}
	}
	slices.SortStableFunc(r.Groups, func(a, b OriginGroup) int { return cmp.Compare(b.Failures, a.Failures) })
}

const (
	maxGroups     = 1000
	maxLook       = 1000 // messages that Look reads
	batchSize     = 100  // messages that wait for their confirms at once
	maxUnreadable = 100  // after which the format is wrong
	idleTime      = time.Second

	confirmTimeout = 15 * time.Second
)

// Look reads the first messages of the queue, up to 1,000 or the limit, and returns them to it. A quorum
// queue counts a delivery of each.
func (a Adopter) Look(ctx context.Context) (result Result, err error) {
	err = a.each(ctx, min(maxLook, cmp.Or(a.Limit, maxLook)), maxLook, func(_ context.Context, _ *rabbit.Session, batch []amqp.Delivery) error {
		for _, d := range batch {
			if failure, err := a.read(d); err != nil {
				result.unreadable(err)
			} else {
				result.add(failure)
			}
		}
		return nil
	})
	result.sort()
	return result, err
}

// Run takes the messages in: it reports each, and acknowledges it once the broker has
// confirmed the report. If it ends in between, that message is reported twice. progress is
// called with the number of failures so far.
func (a Adopter) Run(ctx context.Context, progress func(failures int)) (result Result, err error) {
	most := cmp.Or(a.Limit, math.MaxInt)
	var session *rabbit.Session
	err = a.each(ctx, most, batchSize+maxUnreadable, func(ctx context.Context, s *rabbit.Session, batch []amqp.Delivery) error {
		if s != session { // the messages that stay are delivered again
			session, result.Unreadable = s, 0
		}
		err := a.report(ctx, s, batch, &result)
		progress(result.Failures)
		if err == nil && result.Unreadable >= maxUnreadable {
			err = fmt.Errorf("%d messages of queue %q cannot be read as those of format %s, and stay there: the first because %s",
				result.Unreadable, a.Queue, a.Format.Name, result.Cause)
		}
		return err
	})
	result.sort()
	return result, err
}

func (a Adopter) read(d amqp.Delivery) (Failure, error) {
	return a.Format.Read(schemas.FromDelivery(d), a.Queue, a.Of, a.Topology)
}

// report publishes the reports of a batch, and acknowledges the messages. The end of ctx does
// not interrupt it: their confirms would be lost, and they would be reported again.
func (a Adopter) report(ctx context.Context, s *rabbit.Session, batch []amqp.Delivery, result *Result) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), confirmTimeout, fmt.Errorf("no answer within %s", confirmTimeout))
	defer cancel()
	type sent struct {
		tag     uint64
		failure Failure
		pending *rabbit.Pending
	}
	var waiting []sent
	var failed error
	for _, d := range batch {
		failure, err := a.read(d)
		if err != nil {
			result.unreadable(err)
			continue
		}
		pending, err := a.Publisher.Send(ctx, rabbit.Message{
			Exchange: a.Topology.Report(), RoutingKey: failure.Queue, Publishing: failure.report().Publishing(),
		})
		switch {
		case refused(err):
			result.unreadable(err)
		case err != nil:
			failed = cmp.Or(failed, a.reportError(err))
		default:
			waiting = append(waiting, sent{d.DeliveryTag, failure, pending})
		}
	}
	var acks []uint64
	for _, m := range waiting {
		switch err := m.pending.Wait(ctx); {
		case refused(err):
			result.unreadable(err)
		case err != nil:
			failed = cmp.Or(failed, a.reportError(err))
		default:
			result.add(m.failure)
			acks = append(acks, m.tag)
		}
	}
	return errors.Join(failed, s.AckEach(acks))
}

// refused reports whether the broker would refuse the report of a message each time.
func refused(err error) bool {
	var refused *rabbit.RefusedError
	return errors.As(err, &refused) && refused.CausedByMessage()
}

func (a Adopter) reportError(err error) error {
	var missing *rabbit.UnroutableError
	if errors.As(err, &missing) {
		return fmt.Errorf("exchange %q has no queue: run watership setup, or watership serve", a.Topology.Report())
	}
	return fmt.Errorf("reporting a message of queue %q, which stays there: %w", a.Queue, err)
}

// QueueError is the reason why the messages of a queue cannot be taken in.
type QueueError struct{ Reason string }

// Error implements error.
func (e *QueueError) Error() string { return e.Reason }

// Ready returns the number of messages in the queue that no consumer has.
func (a Adopter) Ready(ctx context.Context) (int, error) {
	if stream, err := a.Connection.IsStream(ctx, a.Queue); err != nil {
		return 0, err
	} else if stream {
		return 0, &QueueError{fmt.Sprintf("queue %q is a stream, which keeps the messages that are taken in; have a consumer publish them to a queue", a.Queue)}
	}
	state, found, err := a.Connection.CertainQueueState(ctx, a.Queue)
	switch {
	case err != nil:
		return 0, err
	case !found:
		return 0, &QueueError{fmt.Sprintf("there is no queue %q", a.Queue)}
	case a.Topology.Owns(a.Queue):
		return 0, &QueueError{fmt.Sprintf("queue %q is Watership's own", a.Queue)}
	case state.Locked:
		return 0, &QueueError{fmt.Sprintf("queue %q is exclusive to another connection", a.Queue)}
	}
	return state.Messages, nil
}

// each calls f with the messages of the queue, in batches. Messages that f does not
// acknowledge return to the queue.
func (a Adopter) each(ctx context.Context, most, prefetch int, f func(context.Context, *rabbit.Session, []amqp.Delivery) error) error {
	ready, err := a.Ready(ctx)
	if err != nil {
		return err
	}
	if !a.Follow {
		most = min(most, ready)
	}
	return a.Connection.Consume(ctx, rabbit.ConsumeConfig{Queue: a.Queue, Prefetch: prefetch}, func(ctx context.Context, s *rabbit.Session) error {
		for most > 0 {
			batch := a.next(ctx, s, min(batchSize, most))
			if len(batch) == 0 {
				return context.Cause(ctx)
			}
			if err := f(ctx, s, batch); err != nil {
				return err
			}
			most -= len(batch)
		}
		return nil
	})
}

// next returns up to n messages: the first that arrives, and those that are there then. It
// returns none at the end of the session, or of a queue that is not followed.
func (a Adopter) next(ctx context.Context, s *rabbit.Session, n int) (batch []amqp.Delivery) {
	idle := time.NewTicker(idleTime)
	defer idle.Stop()
	for len(batch) == 0 {
		select {
		case d, open := <-s.Deliveries:
			if !open {
				return nil
			}
			batch = append(batch, d)
		case <-ctx.Done():
			return nil
		case <-idle.C:
			state, _, err := a.Connection.QueueState(ctx, a.Queue)
			if a.Follow || err != nil || state.Messages > 0 || state.Uncertain {
				continue
			}
			if s.Cancel() != nil { // its answer follows the messages that are on their way
				return nil
			}
			idle.Stop()
		}
	}
	for len(batch) < n {
		select {
		case d, open := <-s.Deliveries:
			if !open {
				return batch
			}
			batch = append(batch, d)
		default:
			return batch
		}
	}
	return batch
}
