package console

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/render/columns"
)

const (
	// usualPeriod is the period of a list whose store has older events, too.
	usualPeriod = "24h"
	day         = 24 * time.Hour

	// fitTimeout is how long a page looks for a period before it takes usualPeriod.
	fitTimeout = time.Second
)

// fitPeriod gives a filter without a period one that fits the data: the shortest that holds all events
// of the query, at most a day; if none of them is of the last day, the shortest that has one.
func (c searchPages) fitPeriod(ctx context.Context, f *frame.Filter) {
	if f.Since != "" || f.From != "" || f.To != "" {
		return
	}
	f.Since = usualPeriod
	ctx, cancel := context.WithTimeout(ctx, fitTimeout)
	defer cancel()
	if fitting, err := c.fittingPeriod(ctx, *f, time.Now()); err == nil {
		f.Since = fitting
	}
}

func (c searchPages) fittingPeriod(ctx context.Context, f frame.Filter, now time.Time) (string, error) {
	newest, found, err := c.newestBefore(ctx, f, "now")
	if err != nil || !found {
		return usualPeriod, err
	}
	for _, p := range frame.Periods() {
		switch age := now.Sub(newest); {
		case p.Length == 0 || age < p.Length && p.Length > day:
			return p.Since, nil
		case age < p.Length && p.Length == day:
			return c.shortestOfAll(ctx, f)
		}
	}
	return usualPeriod, nil
}

// shortestOfAll returns the first period up to a day before which nothing happened, else a day.
func (c searchPages) shortestOfAll(ctx context.Context, f frame.Filter) (string, error) {
	periods := slices.DeleteFunc(frame.Periods(), func(p frame.Period) bool { return p.Length == 0 || p.Length >= day })
	isLonger := make([]bool, len(periods))
	group, ctx := errgroup.WithContext(ctx)
	for i, p := range periods {
		group.Go(func() (err error) {
			_, isLonger[i], err = c.newestBefore(ctx, f, "now-"+p.Since)
			return err
		})
	}
	err := group.Wait()
	for i, p := range periods {
		if !isLonger[i] {
			return p.Since, err
		}
	}
	return usualPeriod, err
}

// newestBefore returns the time of the newest event of a query until a time.
func (c searchPages) newestBefore(ctx context.Context, f frame.Filter, until string) (at time.Time, found bool, err error) {
	f.Since, f.To = "", until
	page, err := messages.SearchEvents.Call(ctx, c.api, messages.SearchInput{QueryFilter: f.API(), Limit: 1, Fields: []string{"@timestamp"}})
	if err != nil || len(page.Body.Events) == 0 {
		return time.Time{}, false, err
	}
	document, err := columns.Parse(page.Body.Events[0])
	if err == nil {
		at, err = time.Parse(time.RFC3339, document.Text("@timestamp"))
	}
	return at, err == nil, err
}
