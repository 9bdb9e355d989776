package transform

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/watershipmq/watership/schemas"
)

const (
	processArgument = "run-programs"
	startTimeout    = 30 * time.Second
)

// process is a process that runs programs. It belongs to one goroutine at a time.
type process struct {
	cmd       *exec.Cmd
	requests  io.WriteCloser
	responses io.Reader
	buffer    []byte // of a request
	stderr    beginning

	usable bool
	ended  bool
	killed bool        // by a signal of another process, maybe for want of memory of the system
	used   int         // calls of apply
	idle   *time.Timer // ends the process, while it is unused
}

// startProcess starts a process, and waits until it has limited its memory.
func startProcess(ctx context.Context) (*process, error) {
	path, err := executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: &exec.Cmd{Path: path, Args: []string{os.Args[0], processArgument}, Env: []string{"GOTRACEBACK=none"}}, usable: true}
	for _, name := range []string{"TZ", "ZONEINFO"} { // for localtime; nothing else of the environment concerns a program
		if value, has := os.LookupEnv(name); has {
			p.cmd.Env = append(p.cmd.Env, name+"="+value)
		}
	}
	if p.requests, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stderr = &p.stderr
	p.responses = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	err = p.exchange(ctx, startTimeout, func() error {
		_, err := readResponse(p.responses, schemas.Envelope{})
		return err
	})
	if p.usable {
		return p, nil
	}
	p.end()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, fmt.Errorf("%w (%v) %s", err, p.cmd.ProcessState, p.stderr.line())
}

// exchange lets do send and receive within a time. The process is killed after that, and when
// ctx ends; afterwards it is not usable.
func (p *process) exchange(ctx context.Context, within time.Duration, do func() error) error {
	kill := func() { _ = p.cmd.Process.Kill() }
	timer, stop := time.AfterFunc(within, kill), context.AfterFunc(ctx, kill)
	err := do()
	inTime, goesOn := timer.Stop(), stop()
	p.usable = err == nil && inTime && goesOn
	if err != nil && !inTime {
		err = errTimeout
	}
	return err
}

var errTimeout = errors.New("the process did not answer in time")

// apply applies a program to the first messages, as many as the process does in one page.
func (p *process) apply(ctx context.Context, program string, messages []schemas.Envelope) (results []Result) {
	p.used++
	err := p.exchange(ctx, timeout+2*grace, func() error {
		p.buffer = request{program, messages}.frame(p.buffer)
		_, err := p.requests.Write(p.buffer)
		return err
	})
	for _, e := range messages {
		var r response
		if err == nil {
			err = p.exchange(ctx, timeout+2*grace, func() (err error) {
				r, err = readResponse(p.responses, e)
				return err
			})
		}
		results = append(results, p.result(ctx, e, r, err))
		if !p.usable || r.last {
			break
		}
	}
	return results
}

// result returns the result of a message by its response, or by the absence of one.
func (p *process) result(ctx context.Context, e schemas.Envelope, r response, err error) Result {
	switch {
	case err != nil && ctx.Err() != nil:
		return Result{Message: e, Err: context.Cause(ctx)}
	case errors.Is(err, errTimeout):
		return Result{Message: e, Err: errNoReturn()}
	case err != nil:
		p.end()
		p.killed = p.cmd.ProcessState != nil && p.cmd.ProcessState.ExitCode() < 0
		return Result{Message: e, Err: p.problem(err)}
	case r.limit != "":
		p.usable = false
		return Result{Message: e, Err: &LimitError{r.limit}}
	case r.failed != "":
		return Result{Message: e, Err: &Error{r.failed}}
	case !r.keep:
		return Result{Message: e}
	}
	return Result{Message: r.changed, Keep: true}
}

// problem returns the error of a process that has ended. One that ends itself has one of its
// exit codes, also after a panic. Otherwise the runtime of Go or the system has ended it, for
// want of memory: their texts and exit codes differ by version, system and race detector.
func (p *process) problem(err error) error {
	state := p.cmd.ProcessState
	if state == nil || state.ExitCode() == exitDone || state.ExitCode() == exitFailed {
		return fmt.Errorf("the process of the program ended: %w (%v) %s", err, state, p.stderr.line())
	}
	return &LimitError{fmt.Sprintf("the program needs more than %d MiB of memory for a message: change the program", maxMemory>>20)}
}

// end ends the process and waits for its end.
func (p *process) end() {
	if p.ended {
		return
	}
	p.usable, p.ended = false, true
	_ = p.cmd.Process.Kill()
	_ = p.requests.Close()
	_ = p.cmd.Wait() // the state is what counts
}

// executable returns the file of this process. Where the system has a link to it, that works
// after the file was replaced, too.
func executable() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

// beginning keeps the first bytes that are written.
type beginning struct{ text bytes.Buffer }

func (b *beginning) Write(data []byte) (int, error) {
	b.text.Write(data[:min(len(data), max(0, 1<<10-b.text.Len()))])
	return len(data), nil
}

// line returns the first line, after the end of the process.
func (b *beginning) line() string {
	line, _, _ := strings.Cut(b.text.String(), "\n")
	return line
}
