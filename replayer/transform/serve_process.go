package transform

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/schemas"
)

// ServeProcess runs programs and ends the process, if [Processes] of this executable started
// it. Otherwise it does nothing. ignore is signal.Ignore, for signals to all processes of a
// terminal or a service: the process that started this one ends it.
func ServeProcess(ignore func(signals ...os.Signal)) {
	if len(os.Args) == 2 && os.Args[1] == processArgument {
		ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		os.Exit(serveProcess())
	}
}

// Exit codes by which a process ends itself.
const (
	exitDone   = 0
	exitFailed = 1
)

func serveProcess() (code int) {
	runtime.GOMAXPROCS(1)   // collecting garbage must not take the processors of others
	debug.SetGCPercent(400) // most messages are small
	debug.SetMemoryLimit(maxMemory / 4 * 3)
	if err := limitMemory(maxMemory); err != nil {
		fmt.Fprintln(os.Stderr, "limiting the memory of the process:", err)
		return exitFailed
	}
	s := server{programs: map[string]*Program{}}
	if err := s.send(response{}, schemas.Envelope{}); err != nil {
		return exitFailed
	}
	for r := range readRequests(os.Stdin) {
		goesOn, err := usercode.Recover(func() (bool, error) { return s.servePage(r) })
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		if err != nil || !goesOn {
			return exitFailed
		}
	}
	return exitDone
}

// server runs the programs of requests.
type server struct {
	programs map[string]*Program // the compiled ones, by their texts
	buffer   []byte              // of a response
}

// servePage sends the responses to a request. goesOn is false after a program that exceeds
// a limit, which may still run.
func (s *server) servePage(r request) (goesOn bool, err error) {
	began, output := time.Now(), 0
	for i, e := range r.messages {
		answer, err := s.answerTo(r.program, e)
		if err != nil {
			return false, err
		}
		output += len(answer.changed.Body)
		answer.last = i == len(r.messages)-1 || output >= pageOutput || time.Since(began) >= pageTime
		if err := s.send(answer, e); err != nil || answer.limit != "" {
			return false, err
		}
		if answer.last {
			break
		}
	}
	return true, nil
}

func (s *server) send(answer response, asked schemas.Envelope) error {
	s.buffer = answer.frame(s.buffer, asked)
	_, err := os.Stdout.Write(s.buffer)
	return err
}

// readRequests ends the process at the end of the input, also while a program runs.
func readRequests(in io.Reader) <-chan request {
	requests := make(chan request)
	go func() {
		buffered := bufio.NewReader(in)
		for {
			r, err := usercode.Recover(func() (request, error) { return readRequest(buffered) })
			if errors.Is(err, io.EOF) {
				os.Exit(exitDone)
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(exitFailed)
			}
			requests <- r
		}
	}()
	return requests
}

const maxCompiled = 16 // programs

func (s *server) answerTo(text string, e schemas.Envelope) (response, error) {
	program := s.programs[text]
	if program == nil {
		if len(s.programs) >= maxCompiled {
			clear(s.programs)
		}
		var err error
		if program, err = Parse(text); err != nil {
			return response{}, err
		}
		s.programs[text] = program
	}
	changed, keep, err := program.Apply(context.Background(), e)
	var failed *Error
	var limit *LimitError
	switch {
	case errors.As(err, &failed):
		return response{failed: failed.Problem}, nil
	case errors.As(err, &limit):
		return response{limit: limit.Problem}, nil
	case err != nil || !keep:
		return response{}, err
	}
	return response{changed: changed, keep: true}, nil
}
