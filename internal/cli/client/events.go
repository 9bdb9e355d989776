package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/schemas"
)

// UnreadableError reports the documents that an export leaves out, as they cannot be read.
type UnreadableError struct{ Documents int }

// Error implements error.
func (e *UnreadableError) Error() string {
	return fmt.Sprintf("the server left %d documents out, which it cannot read", e.Documents)
}

// Events yields the events of a selection, without bodies if the caller may not read them. A selection in the order
// of eventstore.BySequence ends with an *UnreadableError.
func (c *Client) Events(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error] {
	if sel.Order == eventstore.BySequence {
		return c.exported(ctx, sel, false)
	}
	return func(yield func(schemas.Event, error) bool) {
		if err := c.search(ctx, sel, yield); err != nil && !errors.Is(err, errStopped) {
			yield(schemas.Event{}, err)
		}
	}
}

// Originals is Events in the order of eventstore.BySequence, with messages as they were published. Those that the
// server cannot open stay redacted.
func (c *Client) Originals(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return c.exported(ctx, sel, true)
}

func (c *Client) exported(ctx context.Context, sel eventstore.Selection, original bool) iter.Seq2[schemas.Event, error] {
	in := messages.ExportInput{QueryFilter: filter(sel.Query), Limit: sel.Limit, Original: original}
	return func(yield func(schemas.Event, error) bool) {
		if err := c.export(ctx, in, yield); err != nil && !errors.Is(err, errStopped) {
			yield(schemas.Event{}, err)
		}
	}
}

// maxPage is the maximum number of events of a page.
const maxPage = 1000

func (c *Client) search(ctx context.Context, sel eventstore.Selection, yield func(schemas.Event, error) bool) error {
	in := messages.SearchInput{WithBody: !sel.WithoutBody && c.server.Caller.Bodies, Limit: maxPage, Sort: messages.SortOf(sel)}
	in.Query, in.DSL = Split(sel.Query)
	for left := sel.Limit; ; {
		if sel.Limit > 0 {
			in.Limit = min(maxPage, left)
		}
		page, err := messages.SearchEvents.Call(ctx, c, in)
		if err != nil {
			return err
		}
		if !yieldPage(page.Body, yield) {
			return errStopped
		}
		left -= len(page.Body.Events)
		if in.Cursor = page.Body.Cursor; in.Cursor == "" || sel.Limit > 0 && left <= 0 {
			return nil
		}
	}
}

func yieldPage(page messages.EventPage, yield func(schemas.Event, error) bool) bool {
	for _, why := range page.Unreadable {
		if !yield(schemas.Event{}, errors.New(why)) {
			return false
		}
	}
	for _, document := range page.Events {
		if !yield(schemas.ParseDocument(document)) {
			return false
		}
	}
	return true
}

// errStopped is the error of a sequence whose consumer has stopped.
var errStopped = errors.New("stopped")

func (c *Client) export(ctx context.Context, in messages.ExportInput, yield func(schemas.Event, error) bool) error {
	s, err := openStream(ctx, c.connection, messages.ExportEvents, in, "application/x-ndjson", 2*idleTimeout)
	if err != nil {
		return err
	}
	defer s.close()
	for n := 0; ; n++ {
		line, err := s.line()
		if err == io.EOF && len(line) == 0 {
			break
		}
		if err != nil {
			return c.cutOff(ctx, n, err)
		}
		if event, err := schemas.ParseDocument(bytes.TrimSpace(line)); !yield(event, err) {
			return errStopped
		}
	}
	if n, err := strconv.Atoi(s.response.Trailer.Get(messages.UnreadableTrailer)); err == nil && n > 0 {
		return &UnreadableError{n}
	}
	return nil
}

// cutOff returns the error of an export that did not end after n events.
func (c connection) cutOff(ctx context.Context, n int, err error) error {
	e := &Error{err: err, text: fmt.Sprintf("server %s ended the export after %d events, before its end (%v): what was written is incomplete; repeat the export", c.Address(), n, err)}
	if ctx.Err() != nil {
		e.err = ctx.Err()
	}
	return e
}

// stream is a response that grows. It ends if nothing comes for a while.
type stream struct {
	ctx      context.Context // of the request
	response *http.Response
	lines    *bufio.Reader
	stop     context.CancelFunc
	idle     *time.Timer
	timeout  time.Duration
}

// openStream sends the request of an operation whose response is a stream with a content type.
func openStream[I, O any](ctx context.Context, c connection, d operation.Declared[I, O], in I, contentType string, timeout time.Duration) (*stream, error) {
	r, err := newRequest(&d.Operation, &in)
	if err != nil {
		return nil, err
	}
	var s *stream
	err = c.reasoned(ctx, func() (err error) { s, err = c.open(ctx, r, timeout); return err })
	if err != nil {
		return nil, err
	}
	if !isType(s.response, contentType) {
		s.close()
		return nil, c.notWatership(s.response)
	}
	return s, nil
}

// open sends a request whose response is a stream.
func (c connection) open(ctx context.Context, r request, timeout time.Duration) (*stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() { cancel(context.Canceled) }
	idle := time.AfterFunc(readTimeout, func() { cancel(fmt.Errorf("nothing came for %s", timeout)) })
	response, err := c.send(ctx, r)
	if err != nil {
		idle.Stop()
		stop()
		return nil, err
	}
	return &stream{ctx, response, bufio.NewReaderSize(response.Body, 64<<10), stop, idle, timeout}, nil
}

// line reads a line with its end.
func (s *stream) line() ([]byte, error) {
	s.idle.Reset(s.timeout)
	line, err := s.readLine()
	switch {
	case err != nil && s.ctx.Err() != nil:
		err = context.Cause(s.ctx)
	case err == io.EOF && len(line) > 0:
		err = io.ErrUnexpectedEOF
	}
	return line, err
}

// readLine reads up to the end of a line.
func (s *stream) readLine() (line []byte, err error) {
	for {
		part, err := s.lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxResponse:
			return nil, errTooLarge
		case err != bufio.ErrBufferFull:
			return line, err
		}
	}
}

func (s *stream) close() {
	s.idle.Stop()
	s.stop()
	_ = s.response.Body.Close()
}
