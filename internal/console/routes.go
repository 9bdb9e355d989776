package console

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/watershipmq/watership/internal/api"
	"github.com/watershipmq/watership/internal/chart"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/wording"
)

// routesPage is the data of the page of routes.
type routesPage struct {
	Wait     string
	Routes   *frame.Part[routeList]
	Failures *frame.Part[openFailures]
	Queues   *frame.Part[[]api.Queue] // Watership's own
}

// routeList has routes, those that need somebody first, and their retry policies.
type routeList struct {
	api.Routes
	States   []route
	Paused   int // routes
	Policies []retryPolicy
	Unknown  []string // queues whose policy this process does not have
}

// route is a route for templates.
type route struct {
	api.RouteState
	FailuresLink, MessagesLink string
}

// retryPolicy is a policy with the routes that have it.
type retryPolicy struct {
	Queues    []string
	Schedules []chart.Schedule
}

const routesRefresh = 5 * time.Second

// showRoutes shows the routes, and the retry policies as pictures.
func (c *Console) showRoutes(r *http.Request) (frame.Response, error) {
	p := frame.NewParts(r)
	data := routesPage{Wait: waitLink(r), Routes: frame.Ask(p, c.routeStates), Failures: frame.Ask(p, c.openFailures), Queues: frame.Ask(p, c.ownQueues)}
	p.Wait()
	return frame.Page{
		Title: "Routes", Section: "/routes", Template: "routes.html", Data: data, Styles: overviewStyles(), Scripts: []string{"late.js"}, Refresh: routesRefresh,
	}, nil
}

func (c *Console) routeStates(ctx context.Context, to *routeList) error {
	err := c.client.Get(ctx, "/routes", url.Values{"recent": {"true"}}, &to.Routes)
	known := map[string]int{}
	for _, state := range to.Routes.Routes {
		to.States = append(to.States, route{state, failuresOf(state.Queue), "/messages?" + ofQueue(state.Queue)})
		if state.State == "paused" {
			to.Paused++
		}
		if len(state.Retry) == 0 {
			to.Unknown = append(to.Unknown, state.Queue)
			continue
		}
		text, _ := json.Marshal(state.Retry) // it came as JSON
		i, found := known[string(text)]
		if !found {
			i = len(to.Policies)
			known[string(text)] = i
			to.Policies = append(to.Policies, newRetryPolicy(state))
		}
		to.Policies[i].Queues = append(to.Policies[i].Queues, state.Queue)
	}
	slices.SortStableFunc(to.States, func(a, b route) int { return cmp.Compare(trouble(a), trouble(b)) })
	return err
}

func newRetryPolicy(of api.RouteState) (p retryPolicy) {
	for _, s := range of.Retry {
		p.Schedules = append(p.Schedules, chart.NewSchedule(s))
	}
	return p
}

// trouble sorts routes.
func trouble(r route) int {
	return slices.Index([]string{"no queue", "paused", "no consumer", "running"}, r.State)
}

// Badge is the class of the state's badge.
func (r route) Badge() string {
	switch r.State {
	case "running":
		return "good"
	case "no consumer":
		return "warn"
	}
	return "bad"
}

// Median is the time that half of the latest messages took at most.
func (r route) Median() string { return latency(r.Recent.Median) }

// P95 is exceeded by one of 20 messages.
func (r route) P95() string { return latency(r.Recent.P95) }

func latency(s float64) string {
	if d := frame.Seconds(s); d > 0 {
		return wording.Duration(d)
	}
	return "< 1 ms"
}

// Attempts is the number of attempts for errors of most classes; 0: it is not known.
func (r route) Attempts() int {
	if len(r.Retry) == 0 {
		return 0
	}
	return r.Retry[0].Attempts
}

func (c *Console) ownQueues(ctx context.Context, to *[]api.Queue) error {
	for cursor := ""; ; {
		var found api.QueuePage
		if err := c.client.Get(ctx, "/queues", url.Values{"cursor": {cursor}}, &found); err != nil {
			return err
		}
		for _, q := range found.Queues {
			if q.Own {
				*to = append(*to, q)
			}
		}
		if cursor = found.Cursor; cursor == "" {
			return nil
		}
	}
}
