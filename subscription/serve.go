package subscription

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/exclusive"
)

const (
	connectTimeout = 30 * time.Second
	busyInterval   = 3 * time.Second // between two attempts at a subscription that another process runs
)

// Serve runs the active subscriptions of the source that deliver to queues and URLs, until
// ctx ends. It notices created, changed and deleted ones within two seconds, or within 30 if a process of a former
// version has changed them, or the store did not take the note of the change. Of several
// processes each subscription has one, and another takes over when that ends.
func (s *Subscriptions) Serve(ctx context.Context) error {
	for failures := 0; ctx.Err() == nil; {
		conn, err := s.connect(ctx)
		if err != nil {
			failures++
			s.cfg.Logger.Warn("subscriptions wait for the broker", "error", err)
			_ = pauses.Wait(ctx, failures, 0)
			continue
		}
		failures = 0
		s.serveOn(ctx, conn)
		if err := conn.Close(); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Debug("closing the connection of the subscriptions", "error", err)
		}
	}
	return nil
}

// connect opens the connection that holds the queues of the subscriptions of this process.
func (s *Subscriptions) connect(ctx context.Context) (*exclusive.Connection, error) {
	cfg := rabbit.At(s.cfg.Connection, "subscriptions", s.cfg.Logger)
	conn, err := exclusive.Open(ctx, cfg, leaseQueue(s.cfg.Topology, "runner "+rand.Text()), connectTimeout)
	if err != nil {
		return nil, fmt.Errorf("connecting for subscriptions: %w", err)
	}
	return conn, nil
}

// serving is the set of the runners on one connection.
type serving struct {
	*Subscriptions
	conn    *exclusive.Connection
	work    sync.WaitGroup
	runners map[string]*served

	list    []Subscription // as it was listed
	version string         // of the record of changes, read before
	listed  time.Time
}

type served struct {
	revision int64
	created  time.Time
	cancel   context.CancelCauseFunc
	done     chan struct{} // closed when the runner has ended
	again    time.Time     // no earlier; written before done is closed
}

// serveOn runs subscriptions until ctx ends or the connection is lost.
func (s *Subscriptions) serveOn(ctx context.Context, conn *exclusive.Connection) {
	ctx, cancel := context.WithCancel(ctx)
	serving := &serving{Subscriptions: s, conn: conn, runners: map[string]*served{}}
	defer serving.work.Wait()
	defer cancel()
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		serving.look(ctx)
		select {
		case <-ticker.C:
		case <-conn.Lost():
			return
		case <-ctx.Done():
			return
		}
	}
}

// look starts and ends runners as the records say.
func (s *serving) look(ctx context.Context) {
	if err := s.listChanged(ctx); err != nil {
		return // runners log the problems of the store
	}
	wanted := map[string]Subscription{}
	for _, sub := range s.list {
		if sub.State == Active && (sub.Target.Kind == ToQueue || sub.Target.Kind == ToURL && s.cfg.Post != nil) {
			wanted[sub.Name] = sub
		}
	}
	for name, runner := range s.runners {
		sub, found := wanted[name]
		if !found || sub.Revision != runner.revision || !sub.Created.Equal(runner.created) {
			runner.cancel(errChanged)
		}
		select {
		case <-runner.done:
			if time.Now().After(runner.again) {
				delete(s.runners, name)
			}
		default:
		}
	}
	for name, sub := range wanted {
		if s.runners[name] == nil {
			s.start(ctx, sub)
		}
	}
}

func (s *serving) start(ctx context.Context, sub Subscription) {
	ctx, cancel := context.WithCancelCause(ctx)
	one := &served{revision: sub.Revision, created: sub.Created, cancel: cancel, done: make(chan struct{})}
	s.runners[sub.Name] = one
	s.work.Go(func() {
		defer close(one.done)
		defer cancel(nil)
		err := s.run(ctx, s.conn, sub.Name, func(ctx context.Context, d Delivery) error { return s.cfg.Post(ctx, sub.Target.URL, d) })
		var missing *NotFoundError
		switch {
		case ctx.Err() != nil, errors.Is(err, errChanged), errors.As(err, &missing):
		case errors.Is(err, errBusy):
			one.again = time.Now().Add(busyInterval)
		default:
			one.again = time.Now().Add(busyInterval)
			s.cfg.Logger.Warn("a subscription does not run; trying again", "subscription", sub.Name, "error", err)
		}
	})
}
