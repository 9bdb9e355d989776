package notice

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
)

const (
	evaluateTimeout = 2 * time.Minute
	sendTimeout     = 30 * time.Second
	stopTimeout     = 10 * time.Second // for notices that are under way
	longestPause    = time.Hour        // that a receiver can ask for
)

var sendPauses = backoff.Backoff{Min: 10 * time.Second, Max: 5 * time.Minute}

// errReplaced ends a session whose lease another process has taken over.
var errReplaced = errors.New("another process sends the alerts")

// session is the time for which a process holds the lease. One goroutine owns its fields;
// evaluations and notices run in others, and end with a call in results.
type session struct {
	*Notifier
	Set
	state   *State
	version string // of the record
	dirty   bool   // the state has changed since it was saved
	saved   time.Time
	away    bool // the store did not take the latest save

	started map[string]time.Time // latest evaluation in this session, by rule
	running map[string]bool      // rules under evaluation

	results chan func()
	work    sync.WaitGroup
	sending int // notices under way
}

// run works until ctx ends or the lease is lost. Then it waits for the notices under way.
func (s *session) run(ctx context.Context) {
	evaluating, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sending, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abort(nil)
	s.results = make(chan func())
	s.start()
	s.metrics.held.Set(1)
	defer s.metrics.held.Set(0)
	defer s.metrics.alerts.Reset()
	held := true
	for held && ctx.Err() == nil {
		s.evaluate(evaluating)
		if held = s.notify(ctx, sending); !held {
			abort(errReplaced)
			break
		}
		s.await(ctx)
	}
	cancel(errReplaced)
	s.finish(abort)
	if held {
		s.release()
	} else {
		s.Logger.Warn("another process sends the alerts from now on", "source", s.Source)
	}
}

// await waits for a result, or until something is due.
func (s *session) await(ctx context.Context) {
	next := s.saved.Add(beatInterval)
	sooner := func(at time.Time) {
		if at.Before(next) {
			next = at
		}
	}
	for _, rule := range s.Rules {
		if !s.running[rule.Name] {
			sooner(s.started[rule.Name].Add(rule.Every))
		}
	}
	now := s.now()
	for _, r := range s.Receivers {
		if _, at := s.state.due(now, r.Name, r.Pace); !at.IsZero() && !s.away {
			sooner(at)
		}
	}
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	select {
	case done := <-s.results:
		done()
	case <-timer.C:
	case <-ctx.Done():
	}
}

// now returns the time, which nothing in the state is later than. Times of the state are read by
// processes with other clocks, so that none of them has the monotonic clock of this one.
func (s *session) now() time.Time {
	now := time.Now().UTC().Round(0)
	s.state.correct(now)
	return now
}

// start prepares the state that a former session left.
func (s *session) start() {
	now := s.now()
	s.saved = time.Now()
	for name, to := range s.state.Receivers {
		if to.Sending != "" {
			s.Logger.Info("a notice was under way when its process ended: it is sent again, with the same id", "receiver", name, "notice", to.Sending)
			to.Sending = ""
		}
	}
	s.state.retain(now, s.Rules, s.Receivers)
	s.dirty = true
}

// evaluate starts the evaluations that are due.
func (s *session) evaluate(ctx context.Context) {
	for _, rule := range s.Rules {
		if s.running[rule.Name] || time.Since(s.started[rule.Name]) < rule.Every {
			continue
		}
		s.running[rule.Name], s.started[rule.Name] = true, time.Now()
		memory := s.state.rule(rule.Name).Memory
		s.work.Go(func() {
			ctx, cancel := context.WithTimeoutCause(ctx, evaluateTimeout, errors.New("it took too long"))
			defer cancel()
			found, next, err := rule.Evaluate(ctx, memory)
			if err != nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			s.results <- func() { s.evaluated(rule, found, next, err) }
		})
	}
}

// evaluated applies the result of an evaluation.
func (s *session) evaluated(rule Rule, found []Alert, memory json.RawMessage, err error) {
	s.running[rule.Name] = false
	if errors.Is(err, errReplaced) || errors.Is(err, context.Canceled) {
		return
	}
	now, state := s.now(), s.state.rule(rule.Name)
	s.dirty = true
	if err != nil {
		s.metrics.failed.WithLabelValues(rule.Name).Inc()
		if state.Error == "" {
			s.Logger.Warn("a rule of alerts could not be evaluated; trying again", "rule", rule.Name, "error", err)
		}
		state.Error = firstRunes(err.Error(), maxError)
		return
	}
	state.Evaluated, state.Error, state.Memory = now, "", memory
	s.state.observe(now, rule, found)
	s.state.forget()
	s.metrics.count(s.state, s.Rules)
}

// notify saves the state with the notices that are due, and sends them. It returns false if
// another process has the lease.
func (s *session) notify(ctx, sending context.Context) bool {
	now, due := s.now(), map[string][]entry{}
	for _, r := range s.Receivers {
		if entries, at := s.state.due(now, r.Name, r.Pace); len(entries) > 0 && !now.Before(at) {
			due[r.Name] = entries
			s.state.receiver(r.Name).Sending = noticeID(r.Name, entries)
			s.dirty = true
		}
	}
	held, saved := s.saveState(ctx)
	if !held {
		return false
	}
	for _, r := range s.Receivers {
		entries := due[r.Name]
		if !saved {
			entries = slices.DeleteFunc(entries, func(e entry) bool { return !s.state.Alerts[e.Key].isOfStore() })
		}
		switch {
		case len(entries) > 0:
			s.send(sending, r, entries, s.state.notice(now, r.Name, entries, s.Link))
		case len(due[r.Name]) > 0:
			s.state.receiver(r.Name).Sending = ""
		}
	}
	return true
}

// saveState saves the state if it has changed, and now and then to hold the lease. A store
// that is unavailable is not asked each time.
func (s *session) saveState(ctx context.Context) (held, saved bool) {
	if (!s.dirty || s.away) && time.Since(s.saved) < beatInterval {
		return true, !s.dirty
	}
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	s.saved = time.Now()
	version, err := s.save(ctx, s.state, s.version)
	if err == nil && version == "" {
		version, err = s.saveAgain(ctx)
	}
	switch {
	case errors.Is(err, errReplaced):
		return false, false
	case err != nil:
		s.storeAway(err)
		return true, false
	}
	s.version, s.dirty, s.away = version, false, false
	return true, true
}

// saveAgain saves the state over a save of this process whose answer was lost. The error is
// errReplaced if the record is of another process.
func (s *session) saveAgain(ctx context.Context) (string, error) {
	stored, version, err := read(ctx, s.Store, s.Source)
	if err != nil {
		return "", err
	}
	if stored.Holder != s.Process {
		return "", errReplaced
	}
	if version, err = s.save(ctx, s.state, version); err == nil && version == "" {
		err = errReplaced
	}
	return version, err
}

func (s *session) storeAway(err error) {
	if !s.away {
		s.Logger.Warn("alerts wait for the store", "error", err)
	}
	s.away = true
}

// send sends a notice.
func (s *session) send(ctx context.Context, r Receiver, entries []entry, n Notice) {
	s.sending++
	s.work.Go(func() {
		ctx, cancel := context.WithTimeoutCause(ctx, sendTimeout, errors.New("the receiver did not answer in time"))
		defer cancel()
		err := r.Send(ctx, n)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		s.results <- func() { s.sent(r, entries, err) }
	})
}

// sent applies the answer of a receiver.
func (s *session) sent(r Receiver, entries []entry, err error) {
	s.sending--
	s.dirty = true
	now := s.now()
	if err == nil {
		s.metrics.notices.WithLabelValues(r.Name, "taken").Inc()
		s.state.taken(now, r.Name, entries)
		return
	}
	s.metrics.notices.WithLabelValues(r.Name, "refused").Inc()
	failures := s.state.receiver(r.Name).Failures + 1
	pause := sendPauses.Pause(failures)
	var later *LaterError
	if errors.As(err, &later) {
		pause = max(pause, min(later.After, longestPause))
	}
	s.state.refused(now, r.Name, err, pause)
	s.Logger.Warn("a receiver of alerts did not take a notice; trying again", "receiver", r.Name, "error", err, "failures", failures)
}

// finish waits for the goroutines of the session, for notices only so long.
func (s *session) finish(abort context.CancelCauseFunc) {
	timer := time.AfterFunc(stopTimeout, func() { abort(errors.New("the process stops")) })
	defer timer.Stop()
	ended := make(chan struct{})
	go func() {
		s.work.Wait()
		close(ended)
	}()
	for {
		select {
		case done := <-s.results:
			done()
		case <-ended:
			return
		}
	}
}

// release saves the state and lets another process take the lease at once.
func (s *session) release() {
	s.state.Holder, s.dirty, s.away = "", true, false
	if held, saved := s.saveState(context.Background()); held && !saved {
		s.Logger.Warn("the state of the alerts is not saved: another process takes over in a moment")
	}
}
