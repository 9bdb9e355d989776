package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"
)

// Bounds of the transfer of a request and its response. Between them, the time of the
// operation counts.
const (
	bodyTimeout  = 30 * time.Second
	writeTimeout = 30 * time.Second
)

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if r.URL.Path == Prefix+"/openapi.json" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(a.document)
		return
	}
	_, pattern := a.mux.Handler(r)
	op, known := a.operations[pattern]
	if !known {
		a.writeNoOperation(w, r)
		return
	}
	release, free := a.acquire(op)
	if !free {
		w.Header().Set("Retry-After", "1")
		writeProblem(w, Problem{Status: http.StatusServiceUnavailable, Detail: "too many requests are under way", Remedy: "Send the request again later."})
		return
	}
	defer release()
	if problem := readBody(w, r, op); problem != nil {
		writeProblem(w, *problem)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(op.limit() + writeTimeout))
	a.mux.ServeHTTP(w, r)
}

// acquire takes a slot for a request. free is false if there is none.
func (a *API) acquire(op operation) (release func(), free bool) {
	slots := []chan struct{}{a.slots}
	if op.stream {
		slots = append(slots, a.streams)
	}
	release = func() {}
	for _, slot := range slots {
		select {
		case slot <- struct{}{}:
			before := release
			release = func() { <-slot; before() }
		default:
			release()
			return nil, false
		}
	}
	return release, true
}

// readBody replaces the body of a request by its bytes, which it reads within a time and
// a size. Then it removes the deadline of the server for reading: net/http cancels the
// context of a request when that passes.
func readBody(w http.ResponseWriter, r *http.Request, op operation) *Problem {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, op.bodyLimit()))
	_ = control.SetReadDeadline(time.Time{})
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return &Problem{Status: http.StatusRequestEntityTooLarge, Detail: "the body of the request is too large", Remedy: "Send at most " + strconv.FormatInt(op.bodyLimit()>>20, 10) + " MiB" + "."}
	case err != nil:
		return &Problem{Status: http.StatusBadRequest, Detail: "the body of the request cannot be read: " + err.Error()}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// writeNoOperation answers a request for no operation, with the methods that its path
// has.
func (a *API) writeNoOperation(w http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	a.mux.ServeHTTP(answer, r)
	if answer.Code == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", answer.Header().Get("Allow"))
		writeProblem(w, Problem{Status: answer.Code, Detail: "the path does not have the method " + r.Method, Remedy: "Use " + answer.Header().Get("Allow") + "."})
		return
	}
	writeProblem(w, Problem{Status: http.StatusNotFound, Detail: "the API has no such path", Remedy: "See " + Prefix + "/openapi.json."})
}

// Run runs what requests started until ctx ends, and then waits for it.
func (a *API) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
