package messages

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// Request asks about a message with an id, or about an error.
type Request struct {
	ID      string // of a message; "": the error counts
	Queue   string // of the failure; with an ID it may be ""
	Error   Error
	Class   string   // that the error names
	Attempt int      // that fails with the error; 0: the first
	Headers []string // of the message of an error, as NAME=VALUE
}

// MaxAttempt bounds the attempt of a Request.
const MaxAttempt = 10_000

// Check returns the mistake in a request.
func (r Request) Check() error {
	switch {
	case r.ID == "" && r.Error == Error{}:
		return errors.New("expected the id of a message, or an error and its queue")
	case r.ID == "" && r.Queue == "":
		return errors.New("expected the queue of the error")
	case r.ID != "" && (r.Error != Error{} || r.Class != "" || r.Attempt != 0 || len(r.Headers) > 0):
		return errors.New("expected either the id of a message, or an error with its class, attempt and headers")
	}
	if r.Attempt < 0 || r.Attempt > MaxAttempt {
		return fmt.Errorf("attempt %d: expected 1 to %d", r.Attempt, MaxAttempt)
	}
	_, err := r.headers()
	return err
}

func (r Request) headers() (map[string]any, error) {
	headers := map[string]any{}
	for _, header := range r.Headers {
		name, value, found := strings.Cut(header, "=")
		if !found || name == "" {
			return nil, fmt.Errorf("header %q: expected NAME=VALUE", header)
		}
		headers[name] = value
	}
	return headers, nil
}

// ParseError reads an error as TYPE:TEXT, or TEXT alone. A type may have two colons in a row.
func ParseError(s string) Error {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != ':':
		case i+1 < len(s) && s[i+1] == ':':
			i++
		case strings.ContainsAny(s[:i], " \t\n"): // text before a colon
			return Error{Text: s}
		default:
			return Error{Type: s[:i], Text: strings.TrimPrefix(s[i+1:], " ")}
		}
	}
	return Error{Text: s}
}

// Life is a message with its events, in order.
type Life struct {
	Event  schemas.Event // with the headers of the message
	Events []schemas.Event
}

// Find returns the messages with an id.
type Find func(ctx context.Context, id string) ([]Life, error)

// Explain answers a request: about the latest failure of each message with the id, or about the
// error, whose first attempt fails now unless the request has another.
func (cfg Policies) Explain(ctx context.Context, r Request, find Find, now time.Time) ([]Explanation, error) {
	headers, err := r.headers()
	if err != nil {
		return nil, err
	}
	if r.ID == "" {
		now = now.UTC().Truncate(time.Millisecond)
		f := FailedAttempt{Queue: r.Queue, Error: r.Error, Class: r.Class, Attempt: r.Attempt, Headers: headers, First: now, Time: now}
		return []Explanation{cfg.Failure(f)}, nil
	}
	lives, err := find(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	var list []Explanation
	var none error = &NoFailureError{Message: r.ID, Queue: r.Queue}
	for _, life := range lives {
		explanation, err := cfg.Message(life.Event, life.Events, r.Queue)
		if err != nil {
			none = err
			continue
		}
		list = append(list, explanation)
	}
	if len(list) == 0 {
		return nil, none
	}
	return list, nil
}
