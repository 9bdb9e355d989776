package replayer

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// blockingStore blocks Events until release is closed.
type blockingStore struct {
	Store
	readStarted chan struct{} // one element for each started read
	release     chan struct{} // closed: reads continue
}

func (s blockingStore) Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		select {
		case s.readStarted <- struct{}{}:
		default:
		}
		select {
		case <-s.release:
		case <-ctx.Done():
			yield(schemas.Event{}, ctx.Err())
			return
		}
		s.Store.Events(ctx, selection)(yield)
	}
}

// blockedResume is a resumed run whose read of the sent messages is blocked.
type blockedResume struct {
	blockingStore
	ended chan error
}

func (f *fixture) startBlockedResume(ctx context.Context, url, id string) blockedResume {
	f.t.Helper()
	r := blockedResume{blockingStore{f.store, make(chan struct{}, 1), make(chan struct{})}, make(chan error, 1)}
	cfg := f.config(f.cfg.Topology, url)
	cfg.Store = r.blockingStore
	go func() {
		_, err := New(cfg).Run(ctx, id, RunOptions{})
		r.ended <- err
	}()
	rabbittest.Receive(f.t, r.readStarted)
	return r
}

// pausedJob returns a job that has sent some of its messages.
func (f *fixture) pausedJob() Job {
	f.t.Helper()
	f.storePublished(100)
	return f.resume(f.create(f.job("")), RunOptions{StopAfter: 40})
}

// wantHeartbeats waits for three saves of a job.
func (f *fixture) wantHeartbeats(id string) {
	f.t.Helper()
	var latest Job
	for range 3 {
		before := latest.Updated
		rabbittest.Eventually(f.t, "another save of the running job", func() bool {
			var err error
			if latest, err = f.Job(context.Background(), id); err != nil {
				f.t.Fatal(err)
			}
			return latest.State == Running && latest.Updated.After(before)
		})
	}
}

// TestHeartbeat: while a resumed run reads the sent messages, its job counts as
// running, and a second runner is refused.
func TestHeartbeat(t *testing.T) {
	t.Parallel() // most of it is waiting
	f := newFixture(t)
	job := f.pausedJob()
	r := f.startBlockedResume(t.Context(), f.broker.URL, job.ID)
	f.wantHeartbeats(job.ID)
	_, err := f.secondReplayer(f.broker.URL).Run(t.Context(), job.ID, RunOptions{})
	wantAs[*BusyError](t, err)
	close(r.release)
	f.wantDone(r, job, 0)
}

// wantDone waits for the end of a job, which has sent at most some messages twice.
func (f *fixture) wantDone(r blockedResume, job Job, repeated int) {
	f.t.Helper()
	if err := rabbittest.Receive(f.t, r.ended); err != nil {
		f.t.Fatal(err)
	}
	ran, err := f.Job(context.Background(), job.ID)
	if err != nil {
		f.t.Fatal(err)
	}
	wantJob(f.t, ran, Done, 100, 0)
	wantEach(f.t, f.drain(f.queue), 100, repeated)
}

// TestEndsWhileRestoring: a resumed run that still reads can be cancelled or
// interrupted, and continues on another connection when its own is lost.
func TestEndsWhileRestoring(t *testing.T) {
	t.Parallel() // most of it is waiting
	t.Run("cancelled", func(t *testing.T) {
		f := newFixture(t)
		job := f.pausedJob()
		r := f.startBlockedResume(t.Context(), f.broker.URL, job.ID)
		if _, err := f.Cancel(t.Context(), job.ID, "by bob"); err != nil {
			t.Fatal(err)
		}
		if err := rabbittest.Receive(t, r.ended); err == nil || !strings.Contains(err.Error(), "was cancelled: by bob") {
			t.Errorf("the run ended with %v", err)
		}
		if job, err := f.Job(t.Context(), job.ID); err != nil || job.State != Cancelled || job.Sent != 40 {
			t.Errorf("the job is %s, sent %d (%v)", job.State, job.Sent, err)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		f := newFixture(t)
		job := f.pausedJob()
		ctx, stop := context.WithCancel(t.Context())
		r := f.startBlockedResume(ctx, f.broker.URL, job.ID)
		stop()
		if err := rabbittest.Receive(t, r.ended); !errors.Is(err, context.Canceled) {
			t.Errorf("the run ended with %v", err)
		}
		wantJob(t, f.resume(job, RunOptions{}), Done, 100, 0)
	})
	t.Run("lost", func(t *testing.T) {
		f := newFixture(t)
		job := f.pausedJob()
		proxy := f.broker.Proxy(t)
		r := f.startBlockedResume(t.Context(), proxy.URL, job.ID)
		proxy.Cut()
		proxy.Mend()
		rabbittest.Receive(t, r.readStarted)
		close(r.release)
		f.wantDone(r, job, 0)
	})
}

// jobWithoutBroker returns a job whose broker became unreachable half way.
func (f *fixture) jobWithoutBroker() (job Job, proxy *rabbittest.Proxy, ended chan error) {
	f.t.Helper()
	f.storePublished(100)
	slow := f.job("")
	slow.Rate = 20
	job, ended = f.create(slow), make(chan error, 1)
	proxy = f.broker.Proxy(f.t)
	r := New(f.config(f.cfg.Topology, proxy.URL))
	going := make(chan struct{}, 100)
	go func() {
		_, err := r.Run(context.Background(), job.ID, RunOptions{Progress: func(Job) { going <- struct{}{} }})
		ended <- err
	}()
	rabbittest.Receive(f.t, going)
	proxy.Cut()
	rabbittest.Eventually(f.t, "the job names the reason for waiting", func() bool {
		latest, err := f.Job(context.Background(), job.ID)
		return err == nil && strings.Contains(latest.Problem, "waiting for the broker")
	})
	return job, proxy, ended
}

// TestHeartbeatWhileTheBrokerIsAway: a run that waits for its broker counts as
// running, and notices a cancellation.
func TestHeartbeatWhileTheBrokerIsAway(t *testing.T) {
	t.Parallel() // most of it is waiting
	t.Run("back", func(t *testing.T) {
		f := newFixture(t)
		job, proxy, ended := f.jobWithoutBroker()
		f.wantHeartbeats(job.ID)
		arrived := f.broker.Len(t, f.queue) // the confirms of some may be lost
		proxy.Mend()
		f.wantDone(blockedResume{ended: ended}, job, arrived)
	})
	t.Run("cancelled", func(t *testing.T) {
		f := newFixture(t)
		job, _, ended := f.jobWithoutBroker()
		if _, err := f.Cancel(t.Context(), job.ID, "by bob"); err != nil {
			t.Fatal(err)
		}
		if err := rabbittest.Receive(t, ended); err == nil || !strings.Contains(err.Error(), "was cancelled: by bob") {
			t.Errorf("the run ended with %v", err)
		}
	})
}
