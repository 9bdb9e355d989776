package replayer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// Plan is what a job would do.
type Plan struct {
	Job     Job
	Total   int // messages to be sent
	Routes  []Route
	First   time.Time // of the events found
	Last    time.Time
	Sample  []schemas.Event // the first few, without their bodies
	LeftOut map[string]int  // events, by reason

	published map[key]struct{}
}

// Route is where messages of a plan go.
type Route struct {
	Exchange   string
	RoutingKey string
	Queue      string // of a target that is one queue
	Messages   int

	// Gone says that nothing is there to take them; Unchecked that it could not
	// be found out.
	Gone      bool
	Unchecked bool
}

func (r Route) String() string {
	if r.Queue != "" {
		return "queue " + r.Queue
	}
	return fmt.Sprintf("exchange %q, routing key %q", r.Exchange, r.RoutingKey)
}

const sampleSize = 3

// Plan reads what the job's query finds and says what would be sent, without
// sending anything.
func (r *Replayer) Plan(ctx context.Context, job Job) (Plan, error) {
	if job.ID == "" {
		job.ID = r.cfg.NewID()
	}
	if job.UpTo == 0 {
		highest, err := r.cfg.Store.HighestSequence(ctx)
		if err != nil {
			return Plan{}, fmt.Errorf("planning a replay: %w", err)
		}
		job.UpTo = highest
	}
	plan := Plan{Job: job, LeftOut: map[string]int{}}
	if job.UpTo == 0 { // nothing is stored
		return plan, nil
	}
	choice := newChoice(job.Target)
	if err := r.read(ctx, job, choice.note); err != nil {
		return Plan{}, err
	}
	plan.published = choice.published
	routes := map[Route]int{}
	samples := map[Route]schemas.Event{}
	err := r.read(ctx, job, func(e schemas.Event) { plan.add(e, choice, routes, samples) })
	if err != nil {
		return Plan{}, err
	}
	return plan, r.check(ctx, &plan, routes, samples)
}

// read goes through the selection without the bodies.
func (r *Replayer) read(ctx context.Context, job Job, see func(schemas.Event)) error {
	for event, err := range r.cfg.Store.Events(ctx, job.selection(true)) {
		if err != nil {
			return fmt.Errorf("reading what the query finds: %w", err)
		}
		see(event)
	}
	return nil
}

func (p *Plan) add(e schemas.Event, choice *choice, routes map[Route]int, samples map[Route]schemas.Event) {
	if p.Job.Limit > 0 && p.Total >= p.Job.Limit {
		p.LeftOut["beyond the limit"]++
		return
	}
	if reason := choice.take(e); reason != "" {
		p.LeftOut[reason]++
		return
	}
	p.Total++
	route := p.Job.Target.route(e)
	if routes[route]++; routes[route] == 1 {
		samples[route] = e
	}
	if len(p.Sample) < sampleSize {
		p.Sample = append(p.Sample, e)
	}
	if p.First.IsZero() || e.Time.Before(p.First) {
		p.First = e.Time
	}
	if e.Time.After(p.Last) {
		p.Last = e.Time
	}
}

func (t Target) route(e schemas.Event) Route {
	if t == ToFailedQueue {
		return Route{Queue: e.Queue}
	}
	return Route{Exchange: e.Envelope.Exchange, RoutingKey: e.Envelope.RoutingKey}
}

// check asks the broker about every route, the busiest first.
func (r *Replayer) check(ctx context.Context, plan *Plan, routes map[Route]int, samples map[Route]schemas.Event) error {
	for route, messages := range routes {
		sample := samples[route]
		route.Messages = messages
		if err := r.checkRoute(ctx, &route, sample.Envelope); err != nil {
			return err
		}
		plan.Routes = append(plan.Routes, route)
	}
	slices.SortFunc(plan.Routes, func(a, b Route) int {
		if a.Messages != b.Messages {
			return b.Messages - a.Messages
		}
		return strings.Compare(a.String(), b.String())
	})
	return nil
}

func (r *Replayer) checkRoute(ctx context.Context, route *Route, sample schemas.Envelope) error {
	if r.cfg.Routes == nil {
		route.Unchecked = true
		return nil
	}
	var there bool
	var err error
	if route.Queue != "" {
		there, err = r.cfg.Routes.Queue(ctx, route.Queue)
	} else {
		there, err = r.cfg.Routes.Exchange(ctx, sample)
	}
	if err != nil {
		return fmt.Errorf("asking the broker about %s: %w", route, err)
	}
	route.Gone = !there
	return nil
}

// Gone counts the messages that nothing would take.
func (p Plan) Gone() int {
	gone := 0
	for _, route := range p.Routes {
		if route.Gone {
			gone += route.Messages
		}
	}
	return gone
}
