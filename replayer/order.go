package replayer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/replayer/internal/inflight"
)

// ByStream is the Order of a job that sends a message of a stream when the one before it is
// handled.
const ByStream = "stream"

// GoOn is the OnFailure of a job whose streams go on after a message that fails.
const GoOn = "continue"

const (
	// MaxInFlight is the maximum of Job.InFlight.
	MaxInFlight = 2000

	streamsInFlight = 100 // of a job by stream without a limit
)

// awaitsReports reports whether the job waits for the reports of consumers.
func (j Job) awaitsReports() bool { return j.InFlight > 0 || j.Order == ByStream }

func (j Job) checkOrder() error {
	switch {
	case j.Order != "" && j.Order != ByStream && j.Order != ByVersion:
		return fmt.Errorf("order %q: expected %s or %s", j.Order, ByStream, ByVersion)
	case j.Order == ByVersion && (j.Limit > 0 || j.Ramp.First > 0 || len(j.Ramp.Percent) > 0):
		return ErrPartsByVersion
	case j.OnFailure != "" && j.OnFailure != GoOn:
		return fmt.Errorf("on failure %q: expected %s", j.OnFailure, GoOn)
	case j.InFlight < 0 || j.InFlight > MaxInFlight:
		return fmt.Errorf("at most %d messages in flight: expected 1 to %d, or 0 for no limit", j.InFlight, MaxInFlight)
	case j.Pace < 0 || j.MaxGap < 0:
		return errors.New("expected a pace and a maximum gap of 0 or more")
	}
	return nil
}

// maxReported bounds the destinations of a plan whose reports are looked up.
const maxReported = 100

// checkReports refuses a job that would wait for reports that no consumer sends.
func (p *Plan) checkReports(ctx context.Context, r *Replayer) error {
	if p.Job.Order != "" && p.Matched > 0 && p.Streamless == p.Matched {
		return &NoStreamsError{}
	}
	if !p.Job.awaitsReports() || p.Matched == 0 {
		return nil
	}
	var destinations []history.Destination
	for _, route := range p.Routes[:min(len(p.Routes), maxReported)] {
		if !slices.Contains(r.cfg.RouteQueues, route.Queue) && !route.Others {
			destinations = append(destinations, history.Destination{Queue: route.Queue, Exchange: route.Exchange, RoutingKey: route.RoutingKey})
		}
	}
	d, found, err := history.FirstUnreported(ctx, r.cfg.Store, destinations)
	switch {
	case err != nil:
		return fmt.Errorf("looking up whether consumers report: %w", err)
	case found:
		return &NoReportsError{Route{Queue: d.Queue, Exchange: d.Exchange, RoutingKey: d.RoutingKey}}
	}
	return nil
}

// NoStreamsError reports that no message of a job by stream or by version has a stream.
type NoStreamsError struct{}

func (e *NoStreamsError) Error() string {
	return "no message has a stream, so there is no order of streams: configure streams for the messages that are recorded from now on"
}

// NoReportsError reports a destination whose consumers have never reported that they handled
// a message, so that a job cannot wait for that.
type NoReportsError struct{ Route Route }

func (e *NoReportsError) Error() string {
	return fmt.Sprintf("no consumer of %s has reported that it handled a message, and a replay that limits the messages in flight "+
		"or keeps the order of streams waits for that: let the consumer report, or go on without", e.Route)
}

// newSender returns the sender of a run, which knows the messages of earlier runs; nil if the
// job does not wait for reports.
func (run *run) newSender(ctx context.Context) (*inflight.Sender[*inFlight], error) {
	job := run.initial
	if !job.awaitsReports() {
		return nil, nil
	}
	reports := inflight.Reports{
		Reports: history.NewReports(run.replayer.cfg.Store, history.Job{ID: job.ID, UpTo: job.UpTo, ToOrigin: job.Target.Kind == ToOrigin}, run.lease.Exists),
		Final:   job.Order == ByStream,
	}
	sender := inflight.New(inflight.Config[*inFlight]{
		Limit: cmp.Or(job.InFlight, streamsInFlight), Ordered: job.Order == ByStream, Stop: job.OnFailure != GoOn,
		Outcomes: reports.Outcomes, Send: run.sendAdmitted,
	})
	if job.Started.Equal(job.RunStarted) && job.Processed() == 0 {
		return sender, nil
	}
	for _, f := range job.Failures {
		sender.Fail(f.Stream)
	}
	return sender, reports.Restore(ctx, Window, sender.Resume, sender.Fail)
}

// admit sends a message, now or when the order of versions and the sender allow it.
func (run *run) admit(m *inFlight) error {
	if run.versions != nil || run.sender != nil { // a message that waits must not keep the page of its candidate
		own := *m.candidate
		m.candidate = &own
	}
	if run.versions.hold(m) {
		return nil
	}
	return run.admitInOrder(m)
}

// admitAll sends messages that were held.
func (run *run) admitAll(held []*inFlight) error {
	for _, m := range held {
		if err := run.admitInOrder(m); err != nil {
			return err
		}
	}
	return nil
}

func (run *run) admitInOrder(m *inFlight) error {
	if run.sender == nil {
		return run.depart(m)
	}
	if !m.needsSending() && m.err == nil {
		if err := run.sender.Pass(run.sending); err != nil {
			return err
		}
		return run.depart(m)
	}
	return run.sender.Add(run.sending, inflight.Message{ID: m.event.EventID, Fingerprint: m.event.Fingerprint, Stream: m.event.Stream.ID, Bytes: m.bytes}, m)
}

// errTooManyStreams stops a job by stream, which after a resume must not go on with a stream that has a failure.
var errTooManyStreams = fmt.Errorf("a message of a stream could not be sent, and the job has %d failures already, so that it cannot keep another stream to stop: "+
	"see why they fail, and resume it, or replay again with streams that go on after a failure", maxFailures)

// forgets reports whether the job cannot keep that a stream has a failure and stops.
func (j *Job) forgets(stream string) bool {
	return stream != "" && j.Order == ByStream && j.OnFailure != GoOn && len(j.Failures) >= maxFailures
}

// sleep pauses between two messages.
func (run *run) sleep(d time.Duration) error {
	switch {
	case d <= 0:
		return nil
	case run.sender == nil:
		return backoff.Sleep(run.sending, d)
	}
	return run.sender.Sleep(run.sending, d)
}

// sendAdmitted sends a message that the sender admits, or leaves it out after a failure in its
// stream.
func (run *run) sendAdmitted(m *inFlight, stopped bool) error {
	if stopped {
		m.leftOut = streamStopped
	}
	return run.depart(m)
}

// noteUnsent notifies the sender of a message that did not reach its consumer.
func (run *run) noteUnsent(m *inFlight) {
	if run.sender != nil && m.err != nil {
		run.sender.Unsent(m.event.EventID)
	}
}
