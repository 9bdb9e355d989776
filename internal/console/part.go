package console

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/problem"
)

// part is a piece of a page that has a request of its own to the API.
type part[T any] struct {
	Value   T
	Problem *problem.Problem // instead of Value
	Late    bool             // the page did not wait for it: the script reads the page again
}

// partsTimeout is how long the first view of a page waits for its parts.
const partsTimeout = 90 * time.Millisecond

// waitHeader and waitParameter ask for a page that waits for all of its parts: the script
// does, and a link without script.
const (
	waitHeader    = "Watership-Refresh"
	waitParameter = "wait"
)

// parts runs the requests of a page at the same time. Requests that take longer than the
// page waits are given up.
type parts struct {
	ctx     context.Context
	give    context.CancelFunc
	running sync.WaitGroup
}

func newParts(r *http.Request) *parts {
	if r.Header.Get(waitHeader) != "" || r.URL.Query().Has(waitParameter) {
		ctx, give := context.WithCancel(r.Context())
		return &parts{ctx: ctx, give: give}
	}
	ctx, give := context.WithTimeout(r.Context(), partsTimeout)
	return &parts{ctx: ctx, give: give}
}

// wait ends when each part has its value or its problem, or is late.
func (p *parts) wait() {
	p.running.Wait()
	p.give()
}

// ask fills a part with the response to a request. It is to be read after wait.
func ask[T any](p *parts, get func(ctx context.Context, to *T) error) *part[T] {
	made := &part[T]{}
	p.running.Go(func() {
		err := get(p.ctx, &made.Value)
		if made.Late = p.ctx.Err() != nil; err != nil && !made.Late {
			made.Problem = problemOf(err)
		}
	})
	return made
}
