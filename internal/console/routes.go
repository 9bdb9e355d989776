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
)

// routesPage is the data of the page of routes.
type routesPage struct {
	Wait     string
	Routes   *part[routeList]
	Failures *part[openFailures]
	Queues   *part[[]api.Queue] // Watership's own
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
	Schedules []schedule
}

const routesRefresh = 5 * time.Second

// showRoutes shows the routes, and the retry policies as pictures.
func (c *Console) showRoutes(r *http.Request) (response, error) {
	p := newParts(r)
	data := routesPage{Wait: waitLink(r), Routes: ask(p, c.routeStates), Failures: ask(p, c.openFailures), Queues: ask(p, c.ownQueues)}
	p.wait()
	return page{
		Title: "Routes", Section: "/routes", Template: "routes.html", Data: data, Styles: overviewStyles(), Scripts: []string{"late.js"}, Refresh: routesRefresh,
	}, nil
}

func (c *Console) routeStates(ctx context.Context, to *routeList) error {
	err := c.client.get(ctx, "/routes", url.Values{"recent": {"true"}}, &to.Routes)
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
		p.Schedules = append(p.Schedules, newSchedule(s))
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
	if d := seconds(s); d > 0 {
		return formatDuration(d)
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
		if err := c.client.get(ctx, "/queues", url.Values{"cursor": {cursor}}, &found); err != nil {
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
