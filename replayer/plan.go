package replayer

import (
	"context"
	"fmt"
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
	Overlap []Overlap
}

// Overlap is another job that is running, and how many of the events that it is
// about this one finds as well.
type Overlap struct {
	Job    Job
	Events int64
}

const sampleSize = 3

// Plan reads what the job's query finds and says what would be sent, without
// sending or keeping anything.
func (r *Replayer) Plan(ctx context.Context, job Job) (Plan, error) {
	plan, err := r.newPlan(ctx, job)
	if err != nil || plan.Job.UpTo == 0 { // nothing is stored
		return plan, err
	}
	reading, err := r.newReading(ctx, plan.Job)
	if err != nil {
		return Plan{}, err
	}
	routes := newRoutes(r.cfg.Routes)
	for page, err := range reading.pages(ctx, schemas.Cursor{}) {
		if err != nil {
			return Plan{}, err
		}
		for _, f := range page {
			if err := plan.add(ctx, f, routes); err != nil {
				return Plan{}, err
			}
		}
	}
	plan.Routes = routes.sorted()
	plan.Overlap, err = r.overlap(ctx, plan.Job)
	return plan, err
}

func (r *Replayer) newPlan(ctx context.Context, job Job) (Plan, error) {
	if err := job.Changes.Check(); err != nil {
		return Plan{}, err
	}
	if err := job.Target.check(r.cfg.Topology.Owns); err != nil {
		return Plan{}, err
	}
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
	return Plan{Job: job, LeftOut: map[string]int{}}, nil
}

func (p *Plan) add(ctx context.Context, f found, routes *routes) error {
	switch {
	case f.leftOut != "":
		p.LeftOut[f.leftOut]++
		return nil
	case p.Job.Limit > 0 && p.Total >= p.Job.Limit:
		p.LeftOut[beyondLimit]++
		return nil
	}
	e := f.event
	p.Total++
	if len(p.Sample) < sampleSize {
		p.Sample = append(p.Sample, e)
	}
	if p.First.IsZero() || e.Time.Before(p.First) {
		p.First = e.Time
	}
	if e.Time.After(p.Last) {
		p.Last = e.Time
	}
	sent := p.Job.Changes.apply(p.Job.Target.address(e.Envelope))
	return routes.add(ctx, p.Job.Target.route(e), sent)
}

// overlap finds the jobs that are sending some of the same to the same target.
func (r *Replayer) overlap(ctx context.Context, job Job) ([]Overlap, error) {
	var list []Overlap
	mine, err := job.selection()
	if err != nil {
		return nil, err
	}
	for other, err := range r.Jobs(ctx) {
		if err != nil {
			return nil, fmt.Errorf("looking for jobs that replay the same: %w", err)
		}
		if other.ID == job.ID || !other.Running(r.now()) || !other.Target.Equal(job.Target) {
			continue
		}
		theirs, err := other.selection()
		if err != nil {
			return nil, err
		}
		mine.UpTo, theirs.Query = min(job.UpTo, other.UpTo), both(mine.Query, theirs.Query)
		count, err := r.cfg.Store.Count(ctx, schemas.Selection{Query: theirs.Query, UpTo: mine.UpTo})
		if err != nil {
			return nil, fmt.Errorf("looking for jobs that replay the same: %w", err)
		}
		if count > 0 {
			list = append(list, Overlap{other, count})
		}
	}
	return list, nil
}
