package replayer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/tracing"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/schemas"
)

// inFlight is a message from its publishing until its `replayed` event is confirmed.
type inFlight struct {
	*candidate
	state      schemas.State
	sent       schemas.Envelope
	late       bool  // found after the cursor had passed it
	sentBefore bool  // sent by an earlier run after its last checkpoint
	isHeld     bool  // by the order of versions
	index      int64 // in the order of the scan, among the messages that are counted
	bytes      int64
	pending    *rabbit.Pending // of the message; nil if it needs no confirm
	span       *tracing.Span   // of sending it
	err        error
}

// sendFirst sends the message of the first of some candidates, unless it is left out.
func (run *run) sendFirst(candidates []candidate, late bool) error {
	next := &candidates[0]
	sentBefore := run.sentBy.Len() > 0 && run.sentBy.Has(next.messageKey)
	switch processed, end := run.initial.Processed()+run.started, run.initial.StepEnd(); {
	case !next.isCounted():
		return nil
	case run.initial.Limit > 0 && processed >= run.initial.Limit:
		return errLimitReached
	case run.options.StopAfter > 0 && processed-run.erased >= run.initial.RunBegin+run.options.StopAfter:
		return errStopAfter
	case end > 0 && processed-run.erased >= end:
		return errStepSent
	}
	m, err := run.newInFlight(candidates, late, sentBefore)
	if err != nil {
		return err
	}
	if m.leftOut != FilteredOut {
		run.started++
	}
	if m.err != nil && causeOf(m.err) == SubjectErased {
		run.erased++
	}
	if m.needsSending() {
		if err := run.sleep(run.pacer.Delay(m.event.Time)); err != nil {
			return err
		}
	}
	m.index, run.admitted = run.admitted, run.admitted+1
	if err := run.versions.tooMany(m.index); err != nil {
		return err
	}
	return run.admit(m)
}

// depart publishes a message, and passes it on to be counted.
func (run *run) depart(m *inFlight) error {
	if err := run.awaitCapacity(m); err != nil {
		return err
	}
	if m.needsSending() {
		run.publish(m)
	}
	run.published <- m
	return nil
}

// needsSending reports whether this run sends the message.
func (m *inFlight) needsSending() bool { return m.leftOut == "" && !m.sentBefore && m.err == nil }

func (run *run) awaitCapacity(m *inFlight) error {
	select {
	case run.window <- struct{}{}:
	case <-run.sending.Done():
		return context.Cause(run.sending)
	}
	if err := run.unconfirmedBytes.Acquire(run.sending, m.bytes); err != nil || !m.needsSending() {
		return context.Cause(run.sending) // nil while the run goes on
	}
	return run.limiter.Wait(run.sending)
}

// newInFlight prepares the message of the first of some candidates for sending. It starts as a new
// message: its state has no attempt and no instance id.
func (run *run) newInFlight(candidates []candidate, late, sentBefore bool) (*inFlight, error) {
	next := &candidates[0]
	r, job, e := run.replayer, &run.initial, &next.event
	m := &inFlight{candidate: next, late: late, sentBefore: sentBefore, sent: job.message(e.Envelope)}
	if sentBefore {
		m.leftOut = "" // the outcome may belong to this job
	}
	if m.needsSending() {
		m.err = privacy.Open(run.sending, r.cfg.Opener, e)
	}
	if m.needsSending() {
		// A program may ask for the time. Of a job that sends slowly it runs once the message before
		// is on its way, rather than with a page of messages.
		if job.Rate > 0 || job.Pace > 0 {
			candidates = candidates[:1]
		}
		sent, keep, err := run.messages.convert(run.sending, candidates)
		switch {
		case err != nil && !concernsMessageOnly(err):
			return nil, err
		case err != nil:
			m.err = err
		case !keep:
			m.leftOut = FilteredOut
		}
		m.sent = sent
	}
	queue, fingerprint := job.Target.queue(*e), r.cfg.fingerprint(e, m.sent, job)
	m.bytes = min(int64(len(m.sent.Body))+1, maxUnconfirmedBytes)
	m.state = schemas.State{
		Fingerprint: fingerprint, Untapped: queue != "" && fingerprint != e.Fingerprint, Queue: queue, Route: slices.Contains(r.cfg.RouteQueues, queue),
		Trace: e.Trace, Replay: job.ID, ReplayOf: e.EventID, Time: r.now(), OriginClaimed: e.OriginClaimed,
	}
	return m, nil
}

// fingerprint returns the fingerprint of the sent message, and computes it only if it
// differs: the job changes the message, or the target of a dead letter is not the exchange
// of its first publish.
func (c Config) fingerprint(e *schemas.Event, sent schemas.Envelope, job *Job) string {
	sameReplyTo := sent.Properties.ReplyTo == e.Envelope.Properties.ReplyTo
	if sameReplyTo && job.Target.Kind != ToExchange && job.Changes.Empty() && job.Transform == "" && !c.Fingerprints.Folds(e.Envelope) {
		return e.Fingerprint
	}
	sent.Headers = sent.PublisherHeaders()
	return c.Fingerprints.Of(sent)
}

// publish sends the message without waiting for its confirm, except for the first
// message to each queue. confirm sends one once more whose queue has lost its binding.
func (run *run) publish(m *inFlight) {
	queue := m.state.Queue
	m.state.Sent = run.replayer.now()
	m.span = run.tracer.Replay(run.confirming, tracing.Step{Envelope: m.sent, State: m.state, Queue: queue, Began: m.state.Sent})
	m.state.Trace = m.span.Traceparent(m.state.Trace)
	switch {
	case m.event.BodyIn != schemas.BodyHere:
		m.err = &NoBodyError{m.event.EventID, m.event.Fingerprint}
	case queue == "":
		m.pending, m.err = run.lease.Publisher.Send(run.confirming, run.replayer.cfg.sign(rabbit.Message{
			Exchange: m.sent.Exchange, RoutingKey: m.sent.RoutingKey,
			Publishing: wire.DefaultFrameMax.WrapForExchange(m.sent, m.state, run.replayer.login),
		}))
	case !run.boundQueues[queue]:
		m.err = run.lease.Delivery.Deliver(run.confirming, m.sent, m.state)
		run.boundQueues[queue] = m.err == nil
	default:
		m.pending, m.err = run.lease.Publisher.Send(run.confirming, run.lease.Delivery.Message(m.sent, m.state))
	}
}

// problem describes why the message could not be sent. Of a named queue the error
// names the queue, not the internal exchange.
func (m *inFlight) problem() string {
	if cause := causeOf(m.err); m.mayBeOriginal && cause != BodyNotStored && cause != OriginalSealed && cause != SubjectErased {
		return "the error may quote the message, which is redacted, and is not kept"
	}
	var nacked *rabbit.NackedError
	if m.state.Queue != "" && errors.As(m.err, &nacked) {
		return fmt.Sprintf("queue %q refused the message, as a full one does", m.state.Queue)
	}
	return m.err.Error()
}

// concernsMessageOnly reports whether the next message may still arrive.
func concernsMessageOnly(err error) bool { return causeOf(err) != "" }
