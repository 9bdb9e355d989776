package frame

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/operation/problem"
)

// Part is a piece of a page for which it calls an operation.
type Part[T any] struct {
	Value   T
	Problem *problem.Problem // instead of Value
	Late    bool             // the page did not wait for it: the script reads the page again
}

// How long a page waits for its parts: the first time that it is shown, and when the script
// reads it again.
const (
	firstTimeout   = 90 * time.Millisecond
	refreshTimeout = 1500 * time.Millisecond
)

// RefreshHeader is of the requests with which the script reads a page again.
const RefreshHeader = "Watership-Refresh"

// WaitParameter asks for a page that waits for all of its parts: the script does if some were
// late, and a link for browsers without script.
const WaitParameter = "wait"

// WaitLink is a link, for browsers without script, to the same page with all of its parts.
func WaitLink(r *http.Request) string {
	query := r.URL.Query()
	query.Set(WaitParameter, "1")
	return r.URL.Path + "?" + query.Encode()
}

// Parts runs the requests of a page at the same time. Requests that take longer than the
// page waits are given up. The answer to a form waits for all of them, since the script cannot
// read its address again.
type Parts struct {
	ctx     context.Context
	give    context.CancelFunc
	running sync.WaitGroup
}

// NewParts returns the parts of the page that answers a request.
func NewParts(r *http.Request) *Parts {
	p := &Parts{}
	switch {
	case r.URL.Query().Has(WaitParameter), r.Method == http.MethodPost:
		p.ctx, p.give = context.WithCancel(r.Context())
	case r.Header.Get(RefreshHeader) != "":
		p.ctx, p.give = context.WithTimeout(r.Context(), refreshTimeout)
	default:
		p.ctx, p.give = context.WithTimeout(r.Context(), firstTimeout)
	}
	return p
}

// Wait ends when each part has its value or its problem, or is late.
func (p *Parts) Wait() {
	p.running.Wait()
	p.give()
}

// Ask fills a part with the result of a request. Read it after Wait.
func Ask[T any](p *Parts, get func(ctx context.Context) (T, error)) *Part[T] {
	made := &Part[T]{}
	p.running.Go(func() {
		value, err := get(p.ctx)
		if made.Value = value; p.ctx.Err() != nil {
			made.Late = true
		} else if err != nil {
			made.Problem = ProblemOf(err)
		}
	})
	return made
}
