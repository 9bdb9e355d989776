package replayer

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// heldStore is the real one, which answers when it is let.
type heldStore struct {
	Store
	asked chan struct{} // one for each reading that begins
	let   chan struct{} // closed: readings go on
}

func (s heldStore) Events(ctx context.Context, selection schemas.Selection) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		select {
		case s.asked <- struct{}{}:
		default:
		}
		select {
		case <-s.let:
		case <-ctx.Done():
			yield(schemas.Event{}, ctx.Err())
			return
		}
		s.Store.Events(ctx, selection)(yield)
	}
}

// recalling is a resume whose reading of what was sent before does not come to
// an end until it is let.
type recalling struct {
	heldStore
	ended chan error
}

func (f *fixture) recalling(ctx context.Context, url, id string) recalling {
	f.t.Helper()
	r := recalling{heldStore{f.store, make(chan struct{}, 1), make(chan struct{})}, make(chan error, 1)}
	cfg := f.config(f.cfg.Topology, url)
	cfg.Store = r.heldStore
	go func() {
		_, err := New(cfg).Run(ctx, id, RunOptions{})
		r.ended <- err
	}()
	rabbittest.Receive(f.t, r.asked)
	return r
}

// paused is a job that has sent a part of what there is.
func (f *fixture) paused() Job {
	f.t.Helper()
	f.keepMany(100)
	return f.resume(f.begin(f.job("")), RunOptions{StopAfter: 40})
}

// wantPulse waits until a job was saved again, and again.
func (f *fixture) wantPulse(id string) {
	f.t.Helper()
	var latest Job
	for range 3 {
		before := latest.Updated
		rabbittest.Eventually(f.t, "the job says that it runs", func() bool {
			var err error
			if latest, err = f.Job(context.Background(), id); err != nil {
				f.t.Fatal(err)
			}
			return latest.State == Running && latest.Updated.After(before)
		})
	}
}

// TestHeartbeat: while a resume reads what was sent before, the job runs for all to
// see, and nobody else can run it.
func TestHeartbeat(t *testing.T) {
	f := newFixture(t)
	job := f.paused()
	r := f.recalling(t.Context(), f.broker.URL, job.ID)
	f.wantPulse(job.ID)
	_, err := f.second(f.broker.URL).Run(t.Context(), job.ID, RunOptions{})
	wantAs[*BusyError](t, err)
	close(r.let)
	f.wantDone(r, job)
}

func (f *fixture) wantDone(r recalling, job Job) {
	f.t.Helper()
	if err := rabbittest.Receive(f.t, r.ended); err != nil {
		f.t.Fatal(err)
	}
	ran, err := f.Job(context.Background(), job.ID)
	if err != nil {
		f.t.Fatal(err)
	}
	wantJob(f.t, ran, Done, 100, 0)
	if got := strings.Fields(f.got(f.queue)); len(got) != 100 {
		f.t.Errorf("%d messages arrived", len(got))
	}
}

// TestEndsWhileRecalling: a resume that still reads is cancelled, or interrupted,
// and begins again on another connection where its own is lost.
func TestEndsWhileRecalling(t *testing.T) {
	t.Run("cancelled", func(t *testing.T) {
		f := newFixture(t)
		job := f.paused()
		r := f.recalling(t.Context(), f.broker.URL, job.ID)
		if _, err := f.Cancel(t.Context(), job.ID, "by bob"); err != nil {
			t.Fatal(err)
		}
		if err := rabbittest.Receive(t, r.ended); err == nil || !strings.Contains(err.Error(), "was cancelled: by bob") {
			t.Errorf("it ended with %v", err)
		}
		if job, err := f.Job(t.Context(), job.ID); err != nil || job.State != Cancelled || job.Sent != 40 {
			t.Errorf("the job is %s, sent %d (%v)", job.State, job.Sent, err)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		f := newFixture(t)
		job := f.paused()
		ctx, stop := context.WithCancel(t.Context())
		r := f.recalling(ctx, f.broker.URL, job.ID)
		stop()
		if err := rabbittest.Receive(t, r.ended); !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		wantJob(t, f.resume(job, RunOptions{}), Done, 100, 0)
	})
	t.Run("lost", func(t *testing.T) {
		f := newFixture(t)
		job := f.paused()
		proxy := f.broker.Proxy(t)
		r := f.recalling(t.Context(), proxy.URL, job.ID)
		proxy.Cut()
		proxy.Mend()
		rabbittest.Receive(t, r.asked)
		close(r.let)
		f.wantDone(r, job)
	})
}

// brokerAway is a job that is half done when its broker goes away.
func (f *fixture) brokerAway() (job Job, proxy *rabbittest.Proxy, ended chan error) {
	f.t.Helper()
	f.keepMany(100)
	slow := f.job("")
	slow.Rate = 20
	job, ended = f.begin(slow), make(chan error, 1)
	proxy = f.broker.Proxy(f.t)
	r := New(f.config(f.cfg.Topology, proxy.URL))
	going := make(chan struct{}, 100)
	go func() {
		_, err := r.Run(context.Background(), job.ID, RunOptions{Progress: func(Job) { going <- struct{}{} }})
		ended <- err
	}()
	rabbittest.Receive(f.t, going)
	proxy.Cut()
	rabbittest.Eventually(f.t, "the job says what it waits for", func() bool {
		latest, err := f.Job(context.Background(), job.ID)
		return err == nil && strings.Contains(latest.Problem, "waiting for the broker")
	})
	return job, proxy, ended
}

// TestHeartbeatWhileTheBrokerIsAway: a run that waits for its broker is seen to run,
// and hears that it is cancelled.
func TestHeartbeatWhileTheBrokerIsAway(t *testing.T) {
	t.Run("back", func(t *testing.T) {
		f := newFixture(t)
		job, proxy, ended := f.brokerAway()
		f.wantPulse(job.ID)
		proxy.Mend()
		f.wantDone(recalling{ended: ended}, job)
	})
	t.Run("cancelled", func(t *testing.T) {
		f := newFixture(t)
		job, _, ended := f.brokerAway()
		if _, err := f.Cancel(t.Context(), job.ID, "by bob"); err != nil {
			t.Fatal(err)
		}
		if err := rabbittest.Receive(t, ended); err == nil || !strings.Contains(err.Error(), "was cancelled: by bob") {
			t.Errorf("it ended with %v", err)
		}
	})
}
