package routes

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/schemas"
)

// Recent is how the latest messages of a route fared: of each action the newest
// recentEvents events of recentAge.
type Recent struct {
	Handled int     `json:"handled" doc:"Messages that were handled, of the last hour and at most 100"`
	Median  float64 `json:"median_seconds" doc:"Half of them took longer"`
	P95     float64 `json:"p95_seconds" doc:"One of 20 took longer"`
	Retried int     `json:"retried" doc:"Failed attempts that are tried again, of the last hour and at most 100"`
	Attempt int     `json:"attempt" doc:"Highest number of such an attempt"`
	Left    *int    `json:"attempts_left,omitempty" doc:"Lowest number of attempts that were left after such an attempt; none: the policy is not known, or none failed"`
}

const (
	recentAge    = time.Hour
	recentEvents = 100
	recentQueues = 4 // asked for at a time
)

func (cfg Config) addRecent(ctx context.Context, states []RouteState) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(recentQueues)
	for i := range states {
		group.Go(func() (err error) {
			states[i].Recent, err = cfg.recent(ctx, states[i])
			return err
		})
	}
	return group.Wait()
}

func (cfg Config) recent(ctx context.Context, of RouteState) (*Recent, error) {
	handled, err := cfg.newest(ctx, of.Queue, schemas.Handled)
	if err != nil {
		return nil, err
	}
	retried, err := cfg.newest(ctx, of.Queue, schemas.RetryScheduled)
	r := &Recent{Handled: len(handled), Retried: len(retried)}
	if len(handled) > 0 {
		var took []time.Duration
		for _, e := range handled {
			took = append(took, e.Duration)
		}
		slices.Sort(took)
		r.Median, r.P95 = took[len(took)/2].Seconds(), took[len(took)*95/100].Seconds()
	}
	for _, e := range retried {
		r.Attempt = max(r.Attempt, e.Attempt)
		if attempts := attemptsOf(of.Retry, e.Failure.Class); attempts > 0 {
			left := max(attempts-e.Attempt, 0)
			if r.Left == nil || left < *r.Left {
				r.Left = &left
			}
		}
	}
	return r, err
}

func (cfg Config) newest(ctx context.Context, queue string, action schemas.Action) (events []schemas.Event, err error) {
	query, err := within(recentAge, kql.And{kql.FieldIs("watership.queue", queue), kql.FieldIs("event.action", string(action))})
	if err != nil {
		return nil, err
	}
	for e, err := range storeread.Readable(cfg.Events.Events(ctx, eventstore.Selection{Query: query, Limit: recentEvents, WithoutBody: true})) {
		if err != nil {
			return nil, err
		}
		if cfg.has(e) {
			events = append(events, e)
		}
	}
	return events, nil
}
