package statuspage

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/routes"
)

// Routes has routes, first those with problems, and their retry policies.
type Routes struct {
	List     []Route
	Problem  string // of the store, which then does not tell all
	Paused   int    // routes
	First    *Route // the route that was paused first; nil: none is paused, or it is not known since when
	All      bool   // an operator has paused all routes
	Policies []Policy
	Unknown  []string // queues whose policy the server does not know
}

// Route is a route.
type Route struct {
	routes.RouteState
	FailuresLink, MessagesLink string
}

// Policy is a retry policy with the routes that have it.
type Policy struct {
	Queues    []string
	Schedules []Schedule
}

// NewRoutes sorts the routes of the API.
func NewRoutes(of routes.Routes) Routes {
	routes := Routes{Problem: of.Problem}
	known := map[string]int{} // places of policies
	for _, state := range of.Routes {
		routes.All = routes.All || state.WithAll
		routes.List = append(routes.List, Route{state, "/failures?" + ofQueue(state.Queue), "/messages?" + ofQueue(state.Queue)})
		if state.State == "paused" {
			routes.Paused++
		}
		if len(state.Retry) == 0 {
			routes.Unknown = append(routes.Unknown, state.Queue)
			continue
		}
		text, _ := json.Marshal(state.Retry) // it came as JSON
		i, found := known[string(text)]
		if !found {
			i = len(routes.Policies)
			known[string(text)] = i
			routes.Policies = append(routes.Policies, Policy{})
			for _, s := range state.Retry {
				routes.Policies[i].Schedules = append(routes.Policies[i].Schedules, NewSchedule(s))
			}
		}
		routes.Policies[i].Queues = append(routes.Policies[i].Queues, state.Queue)
	}
	for _, route := range routes.List {
		if route.State == "paused" && route.Since != nil && (routes.First == nil || route.Since.Before(*routes.First.Since)) {
			routes.First = &route
		}
	}
	slices.SortStableFunc(routes.List, func(a, b Route) int { return cmp.Compare(a.urgency(), b.urgency()) })
	return routes
}

// ofQueue returns the parameters of a URL for the messages of a queue.
func ofQueue(queue string) string {
	return url.Values{"q": {kql.FieldIs("queue", queue).String()}}.Encode()
}

func (r Route) urgency() int {
	return slices.Index([]string{"no queue", "paused", "no consumer", "running"}, r.State)
}

// Badge is the class of the state's badge.
func (r Route) Badge() string {
	switch {
	case r.State == "running":
		return "good"
	case r.State == "no consumer", r.ByHand, r.WithAll:
		return "warn"
	}
	return "bad"
}

// Median is the time that half of the latest messages took at most.
func (r Route) Median() time.Duration { return frame.Seconds(r.Recent.Median) }

// P95 is exceeded by one of 20 messages.
func (r Route) P95() time.Duration { return frame.Seconds(r.Recent.P95) }

// Attempts is the number of attempts for errors of most classes; 0: it is not known.
func (r Route) Attempts() int {
	if len(r.Retry) == 0 {
		return 0
	}
	return r.Retry[0].Attempts
}
