package transform

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// Limits of the processes that run programs.
const (
	maxMemory    = 512 << 20        // bytes of a process, in addition to its size at its start
	maxProcesses = 2                // at a time
	idleTime     = 30 * time.Second // after which an unused process ends
)

// Processes run programs in their own processes, which have a limit of memory and end with
// a program that does not return: within a process neither is possible. There are at most two
// at a time, for all programs. They start when they are needed, and end when they are not.
//
// Each is another process of this executable, whose main function must begin with
// [ServeProcess].
type Processes struct {
	places chan struct{} // has an element for each process that runs a program

	mu     sync.Mutex // guards the fields below
	idle   []*process // the one that was used last at the end
	closed bool
}

// NewProcesses returns Processes, which the caller must close.
func NewProcesses() *Processes { return &Processes{places: make(chan struct{}, maxProcesses)} }

var errClosed = errors.New("transform: the processes are closed")

// Apply is Program.Apply in a process. A message for which the program exceeds a limit of the
// process is a *LimitError, after which the program runs no more.
func (p *Processes) Apply(ctx context.Context, program *Program, e schemas.Envelope) (changed schemas.Envelope, keep bool, err error) {
	if limit := program.exceeded.Load(); limit != nil {
		return e, false, limit
	}
	select {
	case p.places <- struct{}{}:
		defer func() { <-p.places }()
	case <-ctx.Done():
		return e, false, context.Cause(ctx)
	}
	running, err := p.acquire(ctx)
	if err != nil {
		return e, false, err
	}
	changed, keep, err = running.apply(ctx, program.text, e)
	if !running.usable {
		running.end()
	} else {
		p.release(running)
	}
	var limit *LimitError
	if errors.As(err, &limit) {
		program.exceeded.Store(limit)
	}
	return changed, keep, err
}

// acquire returns an idle process, or a new one.
func (p *Processes) acquire(ctx context.Context) (*process, error) {
	running, err := p.takeIdle()
	if running != nil || err != nil {
		return running, err
	}
	if running, err = startProcess(ctx); err != nil {
		return nil, fmt.Errorf("starting a process for a program: %w", err)
	}
	return running, nil
}

func (p *Processes) takeIdle() (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	last := len(p.idle) - 1
	if last < 0 {
		return nil, nil
	}
	running := p.idle[last]
	p.idle = p.idle[:last]
	running.idle.Stop() // if it is too late, the function finds no such process
	return running, nil
}

func (p *Processes) release(running *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		running.end()
		return
	}
	p.idle = append(p.idle, running)
	used := running.used
	running.idle = time.AfterFunc(idleTime, func() { p.endIdle(running, used) })
}

// endIdle ends a process that was not used since.
func (p *Processes) endIdle(running *process, used int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.idle, running)
	if at < 0 || running.used != used {
		return
	}
	p.idle = slices.Delete(p.idle, at, at+1)
	running.end()
}

// Close ends the processes. It waits for calls of Apply.
func (p *Processes) Close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, running := range idle {
		running.idle.Stop()
		running.end()
	}
	for range maxProcesses {
		p.places <- struct{}{}
	}
	for range maxProcesses {
		<-p.places
	}
}
