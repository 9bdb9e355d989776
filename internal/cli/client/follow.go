package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/operation/sse"
	"github.com/watershipmq/watership/schemas"
)

// message is a server-sent event.
type message struct {
	kind, id string
	data     []byte
}

// next reads the next server-sent event. One that has only an id has no data.
func (s *stream) next() (m message, err error) {
	for {
		line, err := s.line()
		if err != nil {
			return m, err
		}
		name, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			m.kind = string(value)
		case "id":
			m.id = string(value)
		case "data":
			m.data = bytes.Clone(value)
		case "":
			if len(value) == 0 && (m.id != "" || m.data != nil) {
				return m, nil
			}
		}
	}
}

// Follow passes the newest matching events, at most last, and then each new one, until
// ctx ends. After a lost connection it continues with the event after the last one.
func (c *Client) Follow(ctx context.Context, sel eventstore.Selection, last int, to history.Receiver) error {
	query, _ := Split(sel.Query)
	f := &follower{client: c, to: to, in: messages.TailInput{Query: query, WithBody: !sel.WithoutBody && c.server.Caller.Bodies, Last: last}}
	for failures := 0; ; {
		err := f.connect(ctx)
		var lost *Error
		switch {
		case ctx.Err() != nil:
			return to.Flush()
		case !errors.As(err, &lost) || !lost.away() || f.in.LastEventID == "":
			return err
		case f.received:
			failures = 0
		}
		if failures++; failures == 1 {
			to.Unavailable(err)
		}
		pauses := backoff.Backoff{Min: 500 * time.Millisecond, Max: 10 * time.Second}
		if pauses.Wait(ctx, failures, 0) != nil {
			return to.Flush()
		}
	}
}

// lasting is how long a connection lasts at least that a server or a proxy does not end at
// once.
const lasting = 5 * time.Second

type follower struct {
	client   *Client
	to       history.Receiver
	in       messages.TailInput
	received bool // something came by the newest connection, or it lasted
}

// connect passes events until the connection ends.
func (f *follower) connect(ctx context.Context) error {
	f.received = false
	s, err := openStream(ctx, f.client.connection, messages.TailEvents, f.in, sse.ContentType, idleTimeout)
	if err != nil {
		return err
	}
	defer s.close()
	opened := time.Now()
	for {
		m, err := s.next()
		if err != nil {
			f.received = f.received || time.Since(opened) > lasting
			if err == io.EOF {
				err = errors.New("it closed the connection")
			}
			return errors.Join(f.to.Flush(), f.client.away(ctx, err))
		}
		f.received = true
		if err := f.receive(m); err != nil {
			return err
		}
		if m.id != "" {
			f.in.LastEventID = m.id
		}
		if s.lines.Buffered() == 0 {
			if err := f.to.Flush(); err != nil {
				return err
			}
		}
	}
}

func (f *follower) receive(m message) error {
	switch m.kind {
	case "event":
		e, err := schemas.ParseDocument(m.data)
		if err != nil {
			f.to.Unreadable(err)
			return nil
		}
		return f.to.Receive(e)
	case "unreadable", "unavailable", "problem":
		err := f.client.problemOf(m)
		switch m.kind {
		case "unreadable":
			f.to.Unreadable(err)
		case "unavailable":
			f.to.Unavailable(err)
		default:
			return err
		}
	}
	return nil
}

// problemOf returns the error of a problem among server-sent events.
func (c connection) problemOf(m message) error {
	var p problem.Problem
	if err := json.Unmarshal(m.data, &p); err != nil {
		return err
	}
	return c.problem(p)
}
