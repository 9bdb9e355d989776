package frame

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/problem"
)

// Part is a piece of a page that has a request of its own to the API.
type Part[T any] struct {
	Value   T
	Problem *problem.Problem // instead of Value
	Late    bool             // the page did not wait for it: the script reads the page again
}

// partsTimeout is how long the first view of a page waits for its parts.
const partsTimeout = 90 * time.Millisecond

// RefreshHeader is of the requests with which the script reads a page again. They wait for
// all of its parts.
const RefreshHeader = "Watership-Refresh"

// WaitParameter is of a link to a page that waits for all of its parts.
const WaitParameter = "wait"

// WaitLink is a link, for browsers without script, to the same page with all of its parts.
func WaitLink(r *http.Request) string {
	query := r.URL.Query()
	query.Set(WaitParameter, "1")
	return r.URL.Path + "?" + query.Encode()
}

// Parts runs the requests of a page at the same time. Requests that take longer than the
// page waits are given up.
type Parts struct {
	ctx     context.Context
	give    context.CancelFunc
	running sync.WaitGroup
}

func NewParts(r *http.Request) *Parts {
	if r.Header.Get(RefreshHeader) != "" || r.URL.Query().Has(WaitParameter) {
		ctx, give := context.WithCancel(r.Context())
		return &Parts{ctx: ctx, give: give}
	}
	ctx, give := context.WithTimeout(r.Context(), partsTimeout)
	return &Parts{ctx: ctx, give: give}
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
