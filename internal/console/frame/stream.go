package frame

import (
	"bytes"
	"net/http"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// KeyOf returns the key of a form that was sent, so that its action is done once.
func KeyOf(r *http.Request) operation.IdempotencyKey {
	return operation.IdempotencyKey{Key: r.PostForm.Get("key")}
}

// Download is the response with the output of a stream of an operation, as a file.
type Download struct {
	Stream huma.StreamResponse
	Name   string
}

// Write implements Response.
func (d Download) Write(_ *Frame, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Disposition", `attachment; filename="`+d.Name+`"`)
	write(d.Stream, w, r)
}

func write(stream huma.StreamResponse, w http.ResponseWriter, r *http.Request) {
	stream.Body(humago.NewContext(&huma.Operation{}, r, w))
}

// ReadStream returns the output of a stream of an operation, for a page that shows it.
func ReadStream(r *http.Request, stream huma.StreamResponse) (written []byte, err error) {
	defer func() {
		switch cause := recover(); {
		case cause == nil:
		case cause == http.ErrAbortHandler:
			err = &problem.Problem{Code: code.TimedOut, Detail: "the response was not completed in time", Remedy: "Narrow the query or its period, or see doctor."}
		default:
			panic(cause)
		}
	}()
	to := &buffer{header: http.Header{}}
	write(stream, to, r)
	return to.Bytes(), nil
}

// buffer is a response in memory.
type buffer struct {
	bytes.Buffer
	header http.Header
}

// Header implements http.ResponseWriter.
func (b *buffer) Header() http.Header { return b.header }

// WriteHeader implements http.ResponseWriter.
func (b *buffer) WriteHeader(int) {}

// Flush implements http.Flusher.
func (b *buffer) Flush() {}

// SetWriteDeadline is for http.ResponseController.
func (b *buffer) SetWriteDeadline(time.Time) error { return nil }
