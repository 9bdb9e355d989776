// Package transform changes messages by a program in the language of jq
// (https://jqlang.org/manual):
//
//	program, err := transform.Parse(`.body.currency //= "EUR" | .routing_key = "order.v2"`)
//	if err != nil {
//		return err
//	}
//	changed, keep, err := program.Apply(ctx, message)
//
// The input of the program is an object with the members body, headers, properties,
// exchange and routing_key, and so is its output. A body that is no JSON is the text
// body_text, or, if it is no UTF-8, body_base64. Null or no output leaves the message out.
//
// A body, a header or a property that the program does not change stays exactly as it is:
// the bytes of the body, and the AMQP type of the header. To change headers and properties
// alone, package edit is faster.
package transform

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/itchyny/gojq"

	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/schemas"
)

const (
	// MaxProgram is the maximum length of a program.
	MaxProgram = 64 << 10 // bytes

	timeout    = time.Second // for one message
	grace      = time.Second // for a step of the program that does not notice the timeout
	maxOutput  = 16 << 20    // bytes of JSON, in addition to twice the body of the message
	maxProblem = 500         // bytes of an error, which may quote the message
)

// Program is a compiled program. It is safe for concurrent use.
type Program struct {
	text     string
	code     *gojq.Code
	exceeded atomic.Pointer[LimitError] // nil: no limit yet
}

// Parse compiles a program. It has no access to files, modules, environment variables or
// other messages.
func Parse(text string) (*Program, error) {
	if len(text) > MaxProgram {
		return nil, fmt.Errorf("the program has %d bytes: expected at most %d", len(text), MaxProgram)
	}
	query, err := gojq.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("the program cannot be parsed: %w", withLine(text, err))
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, fmt.Errorf("the program cannot be compiled: %w", err)
	}
	return &Program{text: text, code: code}, nil
}

// withLine adds the line of a syntax error.
func withLine(text string, err error) error {
	var syntax *gojq.ParseError
	if !errors.As(err, &syntax) {
		return err
	}
	line := 1 + strings.Count(text[:min(max(syntax.Offset-1, 0), len(text))], "\n")
	return fmt.Errorf("line %d: %w", line, err)
}

// Error reports a message for which the program has no usable output.
type Error struct{ Problem string }

func (e *Error) Error() string { return "the program failed: " + e.Problem }

func errorf(format string, values ...any) *Error {
	text := fmt.Sprintf(format, values...)
	if len(text) > maxProblem {
		text = strings.ToValidUTF8(text[:maxProblem], "") + "…"
	}
	return &Error{text}
}

// LimitError reports a program that did not return, or that needs more memory than a process
// has. It runs no more.
type LimitError struct{ Problem string }

func (e *LimitError) Error() string { return e.Problem }

func errNoReturn() *LimitError {
	return &LimitError{fmt.Sprintf("the program did not return within %s after a message: change the program", timeout+grace)}
}

// Apply returns the message that the program makes of one; keep is false if the program
// leaves it out. An *Error concerns this message only.
//
// The program runs in this process, whose memory it can use up, and which cannot end a program
// that does not return. For programs of others there are [Processes].
func (p *Program) Apply(ctx context.Context, e schemas.Envelope) (changed schemas.Envelope, keep bool, err error) {
	if limit := p.exceeded.Load(); limit != nil {
		return e, false, limit
	}
	in := input(e)
	var goroutines usercode.Goroutines
	defer goroutines.Close()
	r, err := usercode.CallWithin(&goroutines, timeout+grace, func() (result, error) {
		out, err := p.run(ctx, in)
		if err != nil || out == nil {
			return result{}, err
		}
		changed, err := output(e, in, out)
		return result{changed, true}, err
	})
	var failed *Error
	switch {
	case err == nil:
		return r.message, r.keep, nil
	case ctx.Err() != nil:
		return e, false, context.Cause(ctx)
	case usercode.TimedOut(err):
		limit := errNoReturn()
		p.exceeded.Store(limit)
		return e, false, limit
	case errors.As(err, &failed):
		return e, false, err
	}
	return e, false, errorf("%v", err)
}

// result is a message with the decision whether to send it.
type result struct {
	message schemas.Envelope
	keep    bool
}

// run returns the only output of the program; nil if none exists.
func (p *Program) run(ctx context.Context, in map[string]any) (out any, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	outputs := p.code.RunWithContext(ctx, in)
	for n := 0; ; n++ {
		value, more := outputs.Next()
		if !more {
			return out, nil
		}
		if failed, is := value.(error); is {
			if errors.Is(failed, context.DeadlineExceeded) {
				return nil, errorf("it ran longer than %s", timeout)
			}
			return nil, errorf("%v", failed)
		}
		if n > 0 {
			return nil, errorf("it has several outputs: expected one, or none to leave the message out")
		}
		out = value
	}
}
