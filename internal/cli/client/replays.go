package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/sse"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
)

// Plan is the plan of a replay, with the request that starts it.
type Plan struct {
	replayer.Plan
	Unknown []string                // ids that name nothing
	Parked  []failures.ParkedCopies // queues with parked copies

	request replays.Replay
}

// PlanReplay asks for the plan of a replay. Times relative to now become absolute, so
// that its start finds the same messages.
func (c *Client) PlanReplay(ctx context.Context, r replays.Request, uncheckedRoutes bool) (Plan, error) {
	request, err := c.replay(r)
	if err != nil {
		return Plan{}, err
	}
	request.UncheckedRoutes = uncheckedRoutes
	answer, err := replays.PlanReplay.Call(ctx, c, replays.PlanInput{Body: request})
	if err != nil {
		return Plan{}, err
	}
	planned := answer.Body
	request.UpTo, request.Expect = planned.UpTo, &planned.Total
	plan := Plan{Plan: planOf(planned), Unknown: planned.Unknown, Parked: planned.Parked, request: request}
	plan.Job = r.Job
	for _, document := range planned.Sample {
		e, err := schemas.ParseDocument(document)
		if err != nil {
			return Plan{}, err
		}
		plan.Sample = append(plan.Sample, e)
	}
	return plan, nil
}

func (c *Client) replay(r replays.Request) (replays.Replay, error) {
	query, err := c.replayQuery(r)
	if err != nil {
		return replays.Replay{}, err
	}
	dsl, err := ObjectOf(string(r.DSL))
	return replays.Replay{
		Filter: eventfilter.Filter{Query: query}, DSL: dsl, IDs: r.IDs, Group: r.Group,
		Target:  replays.TargetOf(r.Job.Target),
		Changes: replays.ChangesOf(r.Job),
		Again:   r.Job.Again, Transform: r.Job.Transform, Rate: r.Job.Rate, Schedule: replays.ScheduleOf(r.Job), Limit: r.Job.Limit, Reason: r.Job.Reason,
	}, err
}

// replayQuery returns the query of a request with its period; "" if there are other
// criteria alone.
func (c *Client) replayQuery(r replays.Request) (string, error) {
	var node kql.Node = kql.All{}
	var err error
	if r.Query != "" {
		if node, err = c.ParseQuery(r.Query); err != nil {
			return "", err
		}
	}
	if node, err = r.Period.Limit(node); err != nil {
		return "", err
	}
	if node, err = AbsoluteTimes(node); err != nil {
		return "", err
	}
	query, _, err := c.Texts(node)
	if err == nil && query == "" && r.Query != "" {
		query = "*"
	}
	return query, err
}

func planOf(p replays.Plan) replayer.Plan {
	plan := replayer.Plan{
		Total: p.Total, LeftOut: p.LeftOut, Untransformed: p.Untransformed, Bodiless: p.Bodiless, Quarantined: p.Quarantined, Replies: p.Replies, RepliesDropped: p.RepliesDropped,
		Log: replayer.Log{Events: p.LogEvents, Consumers: p.LogConsumers}, Unreadable: p.Unreadable,
	}
	if p.First != nil && p.Last != nil {
		plan.First, plan.Last = *p.First, *p.Last
	}
	for _, r := range p.Routes {
		plan.Routes = append(plan.Routes, replayer.Route{
			Exchange: r.Exchange, RoutingKey: r.RoutingKey, Queue: r.Queue, Others: r.Others, Messages: r.Messages, Unroutable: r.Unroutable, Unchecked: r.Unchecked,
		})
	}
	for _, e := range p.Examples {
		plan.Examples = append(plan.Examples, transform.Example(e))
	}
	for _, r := range p.Rivals {
		plan.Rivals = append(plan.Rivals, replayer.Rival{
			Job: replayer.Job{ID: r.Job, Operator: r.Operator}, Running: r.Running, Messages: r.Messages, Unrecorded: r.Unrecorded,
		})
	}
	return plan
}

// Start starts the job of a plan and watches it until it stops, or has sent stopAfter
// messages (0: all). It returns a job without an id if the server did not start it. After a lost connection it asks again: the server starts it once.
func (c *Client) Start(ctx context.Context, plan Plan, stopAfter int, progress func(replayer.Job)) (replayer.Job, error) {
	in := replays.StartInput{IdempotencyKey: operation.IdempotencyKey{Key: newKey()}, Body: plan.request}
	in.Body.StopAfter = stopAfter
	var started replays.JobOutput
	var err error
	for range 3 {
		started, err = replays.StartReplay.Call(ctx, c, in)
		var lost *Error
		if !errors.As(err, &lost) || lost.refused != nil || !lost.away() || ctx.Err() != nil {
			break
		}
		err = fmt.Errorf("%w\nit is not known whether the job was started: see watership jobs list", err)
		_ = backoff.Sleep(ctx, time.Second)
	}
	if err != nil {
		return replayer.Job{}, err
	}
	return c.watch(ctx, replayer.Job(started.Body.Record), stopAfter, progress)
}

// Resume sends the rest of a job, and watches it. Both are as in Start.
func (c *Client) Resume(ctx context.Context, of replayer.Job, stopAfter int, progress func(replayer.Job)) (replayer.Job, error) {
	in := replays.ResumeInput{ID: of.ID}
	operation.Fill(&in.Body).StopAfter = stopAfter
	resumed, err := replays.ResumeReplay.Call(ctx, c, in)
	if err != nil {
		return replayer.Job{}, err
	}
	return c.watch(ctx, replayer.Job(resumed.Body.Record), stopAfter, progress)
}

// RunningError is returned when a client stops watching a job, which goes on in the
// server.
type RunningError struct {
	ID  string
	Err error
}

// Error implements error.
func (e *RunningError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *RunningError) Unwrap() error { return e.Err }

// Bounds of the wait for a job.
const (
	beginTimeout = 15 * time.Second // until the server has begun it
	awayTimeout  = 5 * time.Minute  // while the server does not answer
	watchPause   = 250 * time.Millisecond
)

// watch reports a job until it stops. before is the job before the server began to run it.
func (c *Client) watch(ctx context.Context, before replayer.Job, stopAfter int, progress func(replayer.Job)) (replayer.Job, error) {
	w := watcher{client: c, progress: progress, now: replays.Job{Record: replays.JobRecord(before)}, failed: before.Failed}
	asked, answered := time.Now(), time.Now()
	for {
		err := w.follow(ctx)
		var lost *Error
		switch {
		case ctx.Err() != nil:
			return replayer.Job(w.now.Record), &RunningError{before.ID, ctx.Err()}
		case err == nil:
			answered = time.Now()
		case !errors.As(err, &lost) || !lost.away() || time.Since(answered) > awayTimeout:
			return replayer.Job(w.now.Record), &RunningError{before.ID, err}
		}
		isBegun := !w.now.Record.Updated.Equal(before.Updated)
		if err == nil && !w.now.Running && (isBegun || time.Since(asked) > beginTimeout) {
			return replayer.Job(w.now.Record), w.result(stopAfter)
		}
		_ = backoff.Sleep(ctx, watchPause)
	}
}

type watcher struct {
	client   *Client
	progress func(replayer.Job)
	now      replays.Job
	failed   int // failures that were reported
}

// follow reports the states of the job until the server ends the stream, and then reads
// the job.
func (w *watcher) follow(ctx context.Context) error {
	named := replays.JobInput{ID: w.now.Record.ID}
	s, err := openStream(ctx, w.client.connection, replays.WatchReplay, named, sse.ContentType, idleTimeout)
	if err != nil {
		return err
	}
	defer s.close()
	for {
		m, err := s.next()
		switch {
		case err == io.EOF:
			now, err := replays.GetReplay.Call(ctx, w.client, named)
			if err == nil {
				w.report(now.Body)
			}
			return err
		case err != nil:
			return w.client.away(ctx, err)
		case m.kind == "problem":
			return w.client.problemOf(m)
		}
		var now replays.Job
		if err := json.Unmarshal(m.data, &now); err != nil {
			return err
		}
		w.report(now)
	}
}

// report reports a state, with each new failure.
func (w *watcher) report(now replays.Job) {
	w.now = now
	for ; w.failed < min(now.Record.Failed, len(now.Record.Failures)); w.failed++ {
		then := replayer.Job(now.Record)
		then.Failed, then.Latest = w.failed+1, now.Record.Failures[w.failed]
		w.progress(then)
	}
	w.failed = now.Record.Failed
	w.progress(replayer.Job(now.Record))
}

// result returns the error of a job that has stopped before its end, unless it has sent as
// many messages as it should.
func (w *watcher) result(stopAfter int) error {
	j := replayer.Job(w.now.Record)
	switch j.State {
	case replayer.Done:
		return nil
	case replayer.Cancelled:
		return &replayer.TakenOverError{ID: j.ID}
	case replayer.Planned:
		return fmt.Errorf("the server has not begun job %s: see its log", j.ID)
	case replayer.Paused:
		if stopAfter > 0 && j.Processed() >= stopAfter {
			return nil
		}
		return fmt.Errorf("the server stopped job %s before its end", j.ID)
	}
	if j.Problem == "" {
		return fmt.Errorf("job %s is %s", j.ID, j.State)
	}
	return errors.New(j.Problem)
}
