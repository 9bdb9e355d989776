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
	buffer := response{}.frame(nil, schemas.Envelope{})
	if _, err := os.Stdout.Write(buffer); err != nil {
		return exitFailed
	}
	programs := map[string]*Program{}
	for r := range readRequests(os.Stdin) {
		limited, err := usercode.Recover(func() (bool, error) {
			answer, err := answerTo(r, programs)
			if err != nil {
				return false, err
			}
			buffer = answer.frame(buffer, r.message)
			_, err = os.Stdout.Write(buffer)
			return answer.limit != "", err
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		if err != nil || limited {
			return exitFailed
		}
	}
	return exitDone
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

func answerTo(r request, programs map[string]*Program) (response, error) {
	program := programs[r.program]
	if program == nil {
		if len(programs) >= maxCompiled {
			clear(programs)
		}
		var err error
		if program, err = Parse(r.program); err != nil {
			return response{}, err
		}
		programs[r.program] = program
	}
	changed, keep, err := program.Apply(context.Background(), r.message)
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
