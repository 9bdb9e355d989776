package simulation

import (
	"context"
	"errors"
	"time"
)

// Times of readiness.
const (
	// A failure of the store lasts 3 minutes in a process whose queue another one has taken over.
	readyWithin = 4 * time.Minute  // after everything is at rest
	askTimeout  = 10 * time.Second // of one question
)

// ready returns what /readyz of the process says.
func (l *life) ready() error {
	s := l.server.Load()
	if s == nil {
		return errors.New("it begins")
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	return s.Ready(ctx)
}

// checkReady reports processes that do not become ready although nothing happens any more.
func checkReady(w *world) {
	end := time.Now().Add(readyWithin)
	for _, p := range w.processes {
		l := p.current()
		if l == nil {
			continue
		}
		for {
			err := l.ready()
			if err == nil {
				break
			}
			if time.Now().After(end) {
				w.fail("%s is not ready, %s after the end of all faults: %v", l.name, readyWithin, err)
				break
			}
			time.Sleep(time.Second)
		}
	}
}

// checkUnready reports a process that is ready although its store refuses all requests.
func checkUnready(l *life) {
	refuses := func() bool { return l.link.faultOfNow() == refusesRequests && !l.isDead() }
	if refuses() && l.ready() == nil && refuses() {
		l.world.fail("%s is ready although its store refuses all requests", l.name)
	}
}
