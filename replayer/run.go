package replayer

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/time/rate"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// Progress is how far a job has come.
type Progress struct {
	Sent   int // confirmed, with their `replayed` events
	Failed []Failure
}

// Failure is a message that could not be sent.
type Failure struct {
	EventID string
	Err     error
}

const inFlight = 500 // messages sent and not yet confirmed

// Run sends what a plan says, in the order in which it was taken into the
// store, and tells progress after each message. A message that the broker
// returns or refuses is counted and the job goes on; it stops when the store
// or the broker is lost.
func (r *Replayer) Run(ctx context.Context, plan Plan, progress func(Progress)) (Progress, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	onTheWay := make(chan *passage, inFlight)
	tally := make(chan Progress, 1)
	go func() { tally <- count(onTheWay, cancel, progress) }()
	err := r.sendAll(ctx, plan, onTheWay)
	close(onTheWay)
	done := <-tally
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return done, err
}

// count takes the outcomes in order. The first that is about more than one
// message ends the job.
func count(onTheWay <-chan *passage, stop context.CancelCauseFunc, progress func(Progress)) Progress {
	var done Progress
	for p := range onTheWay {
		switch err := <-p.outcome; {
		case err == nil:
			done.Sent++
		case concernsOneMessage(err):
			done.Failed = append(done.Failed, Failure{p.event.EventID, err})
		default:
			stop(err)
			continue
		}
		if progress != nil {
			progress(done)
		}
	}
	return done
}

// passage is a message on its way, until its `replayed` event is confirmed.
type passage struct {
	event   schemas.Event
	state   schemas.State
	outcome chan error
}

func (r *Replayer) sendAll(ctx context.Context, plan Plan, onTheWay chan<- *passage) error {
	pace := rate.NewLimiter(rate.Inf, 1)
	if plan.Job.Rate > 0 {
		pace.SetLimit(rate.Limit(plan.Job.Rate))
	}
	reached := map[string]bool{}
	sent := 0
	for event, err := range r.chosen(ctx, plan) {
		if err != nil {
			return err
		}
		if plan.Job.Limit > 0 && sent == plan.Job.Limit {
			return nil
		}
		sent++
		if err := pace.Wait(ctx); err != nil {
			return err
		}
		p := r.passage(plan.Job, event)
		r.depart(ctx, p, reached)
		onTheWay <- p
	}
	return nil
}

func (r *Replayer) passage(job Job, e schemas.Event) *passage {
	state := schemas.State{
		Fingerprint: e.Envelope.Fingerprint(), Replay: job.ID, ReplayOf: e.EventID, Time: r.now(),
	}
	if job.Target == ToFailedQueue {
		state.Queue = e.Queue
	}
	return &passage{e, state, make(chan error, 1)}
}

// depart sends a message and leaves a goroutine to its confirm and its event.
// In this order a crash between them may send it twice; in the other it would
// count as sent and never be.
func (r *Replayer) depart(ctx context.Context, p *passage, reached map[string]bool) {
	if p.event.BodyIn != schemas.BodyHere {
		p.outcome <- &NoBodyError{p.event.EventID, p.event.Fingerprint}
		return
	}
	confirm, err := r.send(ctx, p, reached)
	if err != nil {
		p.outcome <- err
		return
	}
	go func() {
		if err := confirm(ctx); err != nil {
			p.outcome <- err
			return
		}
		p.outcome <- r.say(ctx, p)
	}()
}

// send publishes in order and returns what waits for the confirm.
func (r *Replayer) send(ctx context.Context, p *passage, reached map[string]bool) (func(context.Context) error, error) {
	e, queue := p.event.Envelope, p.state.Queue
	message := rabbit.Message{
		Exchange: e.Exchange, RoutingKey: e.RoutingKey,
		Publishing: schemas.WrapForExchange(e, p.state, r.cfg.Login),
	}
	switch {
	case queue != "" && !reached[queue]:
		err := r.cfg.Hop.Deliver(ctx, e, p.state)
		reached[queue] = err == nil
		return func(context.Context) error { return nil }, err
	case queue != "":
		message = r.cfg.Hop.Message(e, p.state)
	}
	pending, err := r.cfg.Publisher.Send(ctx, message)
	if err != nil {
		return nil, err
	}
	return pending.Wait, nil
}

// say publishes the `replayed` event. Its id is the job's and the event's, so
// that a repeat is the same document.
func (r *Replayer) say(ctx context.Context, p *passage) error {
	state := p.state
	state.EventID = state.Replay + ":" + state.ReplayOf
	state.Message, state.Queue = p.event.Message, p.event.Queue
	pending, err := r.cfg.Publisher.Send(ctx, rabbit.Message{
		Exchange:   r.cfg.Topology.Events(),
		RoutingKey: string(schemas.Replayed),
		Publishing: schemas.Wrap(p.event.Envelope, state),
	})
	if err == nil {
		err = pending.Wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("the message of event %s was sent, but its replayed event was not: %v", p.event.EventID, err)
	}
	return nil
}

// concernsOneMessage: the others may well arrive.
func concernsOneMessage(err error) bool {
	var unroutable *rabbit.UnroutableError
	var nacked *rabbit.NackedError
	var refused *rabbit.RefusedError
	var noBody *NoBodyError
	return errors.As(err, &unroutable) || errors.As(err, &nacked) || errors.As(err, &refused) || errors.As(err, &noBody)
}
