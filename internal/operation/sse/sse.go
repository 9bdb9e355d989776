// Package sse writes HTTP responses that grow: streams, and server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html).
package sse

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// ContentType is the content type of server-sent events.
const ContentType = "text/event-stream"

// WriteTimeout is the longest time that a client may take to read the written bytes.
const WriteTimeout = 30 * time.Second

// Stream is a response that is written as it grows. A client that reads nothing ends it.
type Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

// NewStream returns a stream that ends when a write takes longer than a timeout.
func NewStream(w http.ResponseWriter, timeout time.Duration) Stream {
	return Stream{w, http.NewResponseController(w), timeout}
}

// Write implements io.Writer.
func (s Stream) Write(data []byte) (int, error) {
	if err := s.control.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
		return 0, err
	}
	return s.w.Write(data)
}

// Flush sends the written bytes.
func (s Stream) Flush() error { return s.control.Flush() }

// SetTrailer sets a trailer, of a response that was flushed.
func (s Stream) SetTrailer(name, value string) { s.w.Header().Set(http.TrailerPrefix+name, value) }

// Writer writes events.
type Writer struct {
	Stream
	written time.Time
}

// NewWriter writes a comment, so that the client knows that it is connected.
func NewWriter(s Stream) (*Writer, error) {
	w := &Writer{Stream: s}
	return w, w.comment("connected")
}

func (w *Writer) comment(text string) error {
	w.written = time.Now()
	if _, err := io.WriteString(w, ": "+text+"\n\n"); err != nil {
		return err
	}
	return w.Flush()
}

// ID writes and flushes an id without an event: the place from which a client continues
// that has received no event.
func (w *Writer) ID(id string) error {
	w.written = time.Now()
	if _, err := io.WriteString(w, "id: "+id+"\n\n"); err != nil {
		return err
	}
	return w.Flush()
}

// Send writes and flushes an event.
func (w *Writer) Send(kind, id string, data any) error {
	if err := w.Event(kind, id, data); err != nil {
		return err
	}
	return w.Flush()
}

// Event writes an event, with its data as JSON. A client sends id as
// Last-Event-ID; "": none.
func (w *Writer) Event(kind, id string, data any) error {
	text, err := json.Marshal(data) // without line breaks
	if err != nil {
		return err
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	w.written = time.Now()
	_, err = fmt.Fprintf(w, "event: %s\n%sdata: %s\n\n", kind, id, text)
	return err
}

// keepAliveInterval is below the time after which proxies end idle connections.
const keepAliveInterval = 15 * time.Second

// KeepAlive writes a comment if nothing was written for a while.
func (w *Writer) KeepAlive() error {
	if time.Since(w.written) < keepAliveInterval {
		return nil
	}
	return w.comment("waiting")
}
