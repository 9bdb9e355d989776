package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operation/sse"
	"github.com/watershipmq/watership/replayer"
)

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

// Watch reports a job that was started or resumed until it stops, or has sent stopAfter messages
// (0: all). before is the job before the server began to run it.
func (c *Client) Watch(ctx context.Context, before replayer.Job, stopAfter int, progress func(replayer.Job)) (replayer.Job, error) {
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
		if j.Open.Stopped {
			return &replayer.StoppedError{Why: j.Problem}
		}
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
