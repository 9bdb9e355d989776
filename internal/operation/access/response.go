package access

import (
	"net/http"

	"github.com/watershipmq/watership/internal/operation/code"
)

// recordedResponse calls before with the status before a response is sent. If that fails,
// it sends an error instead.
type recordedResponse struct {
	http.ResponseWriter
	before func(status int) error

	status int
	failed bool
}

// WriteHeader implements http.ResponseWriter.
func (w *recordedResponse) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	if status < http.StatusOK && status != http.StatusSwitchingProtocols {
		w.ResponseWriter.WriteHeader(status) // informational: another follows
		return
	}
	w.status = status
	if err := w.before(status); err != nil {
		w.failed = true
		w.Header().Del("Content-Length")
		w.Header().Del("Content-Encoding")
		w.Header().Del("Etag")
		writeProblem(w.ResponseWriter, problem{
			Title: http.StatusText(http.StatusInternalServerError), Status: http.StatusInternalServerError, Code: code.Internal,
			Detail: "the request was handled, and could not be recorded: look at its effect before you repeat it",
		})
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *recordedResponse) Write(content []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.failed {
		return len(content), nil
	}
	return w.ResponseWriter.Write(content)
}

// FlushError implements what http.ResponseController calls: a flush sends the header, too.
func (w *recordedResponse) FlushError() error {
	w.WriteHeader(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (w *recordedResponse) Flush() { _ = w.FlushError() }

// Unwrap gives http.ResponseController the deadlines of the connection.
func (w *recordedResponse) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end records a request whose handler has written nothing, or has panicked.
func (w *recordedResponse) end() {
	if cause := recover(); cause != nil {
		if w.status == 0 {
			w.status = http.StatusInternalServerError
			_ = w.before(w.status)
		}
		panic(cause) // net/http ends the connection, and logs
	}
	w.WriteHeader(http.StatusOK)
}
