package replayer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/replayer/internal/planbroker"
	"github.com/watershipmq/watership/schemas"
)

// UncheckedError is returned if the broker cannot be asked whether routes lead to a queue. A
// Config with UncheckedRoutes does not ask; one with ManagementURL asks there.
type UncheckedError struct{ Err error }

// Error implements error.
func (e *UncheckedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UncheckedError) Unwrap() error { return e.Err }

// Route is a destination of messages in a plan.
type Route struct {
	Exchange   string
	RoutingKey string
	Queue      string // if the target is a single queue
	Messages   int

	// Others: the messages of this exchange with routing keys after the first
	// maxRoutes; RoutingKey is empty.
	Others bool

	// Unroutable counts the messages that would reach no queue; Unchecked: the broker
	// was not asked, or does not know the redacted routing key.
	Unroutable int
	Unchecked  bool
}

func (r Route) String() string {
	switch {
	case r.Queue != "":
		return "queue " + r.Queue
	case r.Others:
		return fmt.Sprintf("exchange %q, other routing keys", r.Exchange)
	}
	return fmt.Sprintf("exchange %q, routing key %q", r.Exchange, r.RoutingKey)
}

// leadsTo reports whether the route ends at an exchange or queue whose name matches. The default exchange routes to the queue named by the routing key.
func (r Route) leadsTo(matches func(name string) bool) bool {
	return matches(r.Queue) || matches(r.Exchange) || r.Queue == "" && r.Exchange == "" && matches(r.RoutingKey)
}

// maxRoutes limits the memory of a plan whose routing keys contain ids.
const maxRoutes = 10000

// routes counts the messages of each route, and asks the broker once about each.
type routes struct {
	broker        planbroker.RouteChecker // nil: routes are not checked
	byDestination map[Route]*Route
}

func newRoutes(broker planbroker.RouteChecker) *routes { return &routes{broker, map[Route]*Route{}} }

func (r *routes) add(ctx context.Context, to Route, e schemas.Envelope) error {
	known := r.byDestination[to]
	if known != nil && !known.Others {
		if known.Messages++; known.Unroutable > 0 {
			known.Unroutable++
		}
		return nil
	}
	routable, err := r.routable(ctx, to, e)
	if err != nil {
		return fmt.Errorf("asking the broker about %s: %w", to, err)
	}
	if len(r.byDestination) >= maxRoutes {
		to = Route{Exchange: to.Exchange, Others: true}
	}
	if known = r.byDestination[to]; known == nil {
		route := to
		route.Unchecked = r.broker == nil || e.Redacted && privacy.HasHash(to.RoutingKey)
		known = &route
		r.byDestination[to] = known
	}
	if known.Messages++; !routable {
		known.Unroutable++
	}
	return nil
}

func (r *routes) routable(ctx context.Context, to Route, e schemas.Envelope) (routable bool, err error) {
	switch {
	case r.broker == nil:
		return true, nil
	case to.Queue != "":
		return r.broker.QueueExists(ctx, to.Queue)
	}
	if routable, err = r.broker.Routable(ctx, e); err != nil && ctx.Err() == nil { // as during a partition of the cluster
		err = &UncheckedError{fmt.Errorf("%w: try again", err)}
	}
	return routable, err
}

// sorted returns the routes, the busiest first.
func (r *routes) sorted() []Route {
	var list []Route
	for _, route := range r.byDestination {
		list = append(list, *route)
	}
	slices.SortFunc(list, func(a, b Route) int {
		if a.Messages != b.Messages {
			return b.Messages - a.Messages
		}
		return strings.Compare(a.String(), b.String())
	})
	return list
}

// Unroutable counts the messages that would reach no queue.
func (p Plan) Unroutable() int {
	gone := 0
	for _, route := range p.Routes {
		gone += route.Unroutable
	}
	return gone
}
