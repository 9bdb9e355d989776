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

	// A page of messages ends early after so long a time, since other programs wait for the
	// process, and after a number of bytes of results, which are kept until its end.
	pageTime   = 100 * time.Millisecond
	pageOutput = 16 << 20
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

// Result is the outcome of a program for a message.
type Result struct {
	Message schemas.Envelope // the original one, unless Keep
	Keep    bool             // false: the program leaves the message out, or fails
	Err     error            // an *Error concerns this message only
}

// Apply is Program.Apply in a process, for a page of messages. It returns the results of the
// first ones in their order: fewer than there are messages if the others would take long or
// need much memory, or after an error that concerns all of them. There is at least one for one
// or more messages. A message for which the program exceeds a limit of the process is
// a *LimitError, after which the program runs no more. If a process is killed, another one tries its messages once more.
//
// Nil Processes run the program in this process, for one message.
func (p *Processes) Apply(ctx context.Context, program *Program, messages ...schemas.Envelope) []Result {
	if len(messages) == 0 {
		return nil
	}
	if p == nil {
		changed, keep, err := program.Apply(ctx, messages[0])
		return []Result{{Message: changed, Keep: keep, Err: err}}
	}
	results, err := p.apply(ctx, program, messages)
	if err != nil {
		return []Result{{Message: messages[0], Err: err}}
	}
	return results
}

func (p *Processes) apply(ctx context.Context, program *Program, messages []schemas.Envelope) ([]Result, error) {
	if limit := program.exceeded.Load(); limit != nil {
		return nil, limit
	}
	select {
	case p.places <- struct{}{}:
		defer func() { <-p.places }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	results, killed, err := p.applyOnce(ctx, program, messages)
	if killed {
		results, _, err = p.applyOnce(ctx, program, messages)
	}
	if err != nil {
		return nil, err
	}
	var limit *LimitError
	if errors.As(results[len(results)-1].Err, &limit) {
		program.exceeded.Store(limit)
	}
	return results, nil
}

// applyOnce applies a program in one process. It reports whether that was killed, perhaps for no fault of the program.
func (p *Processes) applyOnce(ctx context.Context, program *Program, messages []schemas.Envelope) (results []Result, killed bool, err error) {
	running, err := p.acquire(ctx)
	if err != nil {
		return nil, false, err
	}
	results = running.apply(ctx, program.text, messages)
	if !running.usable {
		running.end()
	} else {
		p.release(running)
	}
	return results, running.killed, nil
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
