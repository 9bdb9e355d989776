package replayer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/replayer/internal/planbroker"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
)

// Plan describes the messages that a job would send.
type Plan struct {
	Job     Job
	Matched int // messages to send
	Routes  []Route
	Kinds   []Route   // the messages that can be sent by exchange, routing key and single queue, at most 100
	First   time.Time // of the matched events
	Last    time.Time
	Sample  []schemas.Event // the first few, without their bodies
	LeftOut map[Reason]int  // events

	Streamless int // messages without a stream

	// Untransformed counts messages that cannot be sent, since the program of the job fails,
	// and Examples are the first few messages before and after it.
	Untransformed int
	Examples      transform.Examples

	// Erased counts messages that cannot be sent, since the key of a person whom they are about was destroyed.
	Erased int

	// Bodiless counts messages that cannot be sent: the store does not have their
	// bodies, or not yet.
	Bodiless int

	// Quarantined counts messages of events whose documents the store refused. They are
	// sent from the message that the quarantined document keeps.
	Quarantined int

	// FailedAt are the queues at which the messages to send have failed, sorted.
	FailedAt []string

	// Replies counts the requests whose clients would get another reply, and
	// RepliesDropped the requests that the job sends without reply_to.
	Replies        int
	RepliesDropped int

	// Rivals have some of the messages. The job leaves these out, unless it has Again.
	Rivals []Rival

	Log        Log // events that are not in the store yet
	Unreadable int // jobs that cannot be read, so their sent messages are not known
}

const sampleSize = 3

// Plan reads the events that match the job's query and reports which messages would be
// sent. It sends and stores nothing. It waits some seconds for the `replayed` events
// of other jobs. The job of the plan has the query with full names of fields and absolute times, in UTC.
func (r *Replayer) Plan(ctx context.Context, job Job) (Plan, error) {
	if err := job.check(r.cfg.Topology.Owns); err != nil {
		return Plan{}, err
	}
	query, err := eventstore.ParseQuery(job.Query, r.now().UTC())
	if err != nil {
		return Plan{}, fmt.Errorf("the query of the job: %w", err)
	}
	job.Query = query.String()
	broker, err := r.planBroker(ctx, job.Target)
	if err != nil {
		return Plan{}, err
	}
	plan, err := r.planWith(ctx, job, broker)
	return plan, errors.Join(err, broker.Close())
}

// planWith repeats a plan until the store has the `replayed` events of other jobs.
func (r *Replayer) planWith(ctx context.Context, job Job, broker planbroker.Broker) (Plan, error) {
	for began := r.now(); ; {
		plan, err := r.planNow(ctx, job, broker)
		if waited := r.now().Sub(began); err != nil || !plan.outdated(waited) || waited >= r.recordTimeout {
			return plan, err
		}
		if err := backoff.Sleep(ctx, recordInterval); err != nil {
			return Plan{}, err
		}
	}
}

const (
	recordInterval = 250 * time.Millisecond

	// consumerGrace is the time within which an indexer consumes again that has lost its
	// connection, or the store for a moment.
	consumerGrace = 2 * time.Second
)

// outdated reports whether the store is about to get events that change the plan.
func (p Plan) outdated(waited time.Duration) bool {
	stored := p.Log.Unknown || p.Log.Consumers > 0 || waited < consumerGrace
	return stored && (p.Log.Events > 0 || p.Unrecorded() > 0)
}

// Unrecorded counts the messages that are left out because the `replayed` events of
// other jobs are not in the store yet.
func (p Plan) Unrecorded() int {
	messages := 0
	for _, rival := range p.Rivals {
		if !rival.Running && !p.Job.Again {
			messages += rival.Messages
		}
	}
	return messages
}

func (r *Replayer) planNow(ctx context.Context, job Job, broker planbroker.Broker) (Plan, error) {
	plan, rivals, err := r.newPlan(ctx, job, broker)
	if err != nil {
		return plan, err
	}
	r = r.withRetries(connectTimeout) // the store has just responded
	scan, err := r.newScan(ctx, plan.Job, rivals)
	if err != nil {
		return Plan{}, err
	}
	if scan.withBodies = plan.Job.Transform != ""; !scan.withBodies {
		if scan.withBodies, err = scan.mayBeErased(ctx); err != nil {
			return Plan{}, err
		}
	}
	messages, err := newConverter(r.cfg, &plan.Job)
	if err != nil {
		return Plan{}, err
	}
	routes := newRoutes(broker.Routes)
	for page, err := range scan.pages(ctx, eventstore.Cursor{}) {
		if err != nil {
			return Plan{}, err
		}
		for i := range page {
			if err := plan.addFirst(ctx, page[i:], messages, routes); err != nil {
				return Plan{}, err
			}
		}
		if err := plan.countBodiless(ctx, r.cfg.Store, page); err != nil {
			return Plan{}, err
		}
	}
	plan.Routes = routes.sorted()
	plan.addRivals(rivals)
	return plan, plan.checkReports(ctx, r)
}

// check validates a job, also one that another program wrote to the store.
func (j Job) check(own func(name string) bool) error {
	if err := cmp.Or(j.checkOrder(), j.Ramp.Check()); err != nil {
		return err
	}
	if j.Transform != "" {
		if _, err := transform.Parse(j.Transform); err != nil {
			return err
		}
	}
	if err := j.Changes.Check(); err != nil {
		return err
	}
	return j.Target.check(own)
}

// newPlan looks for other jobs before it reads the highest sequence, so that the
// events they have recorded are below it.
func (r *Replayer) newPlan(ctx context.Context, job Job, broker planbroker.Broker) (plan Plan, rivals []*Rival, err error) {
	if job.ID == "" {
		job.ID = r.cfg.NewID()
	}
	plan = Plan{Job: job, LeftOut: map[Reason]int{}}
	log, err := broker.Log(ctx)
	if err != nil {
		return Plan{}, nil, err
	}
	plan.Log = Log(log)
	rivals, plan.Unreadable, err = r.findRivals(ctx, job, plan.Log, func(other Job) (bool, error) { return other.Running(r.now()), nil })
	if err != nil {
		return Plan{}, nil, err
	}
	for _, rival := range rivals {
		rival.planned = true
	}
	if job.UpTo == 0 {
		highest, err := r.cfg.Store.HighestSequence(ctx)
		if err != nil {
			return Plan{}, nil, fmt.Errorf("planning a replay: %w", err)
		}
		plan.Job.UpTo = max(highest, 1) // of an empty store, too: 0 is no bound, and the job would send later messages
	}
	return plan, rivals, nil
}

// addRivals adds the rivals with common messages to the plan.
func (p *Plan) addRivals(rivals []*Rival) {
	for _, rival := range rivals {
		if rival.Messages == 0 {
			continue
		}
		p.Rivals = append(p.Rivals, *rival)
		if !p.Job.Again {
			p.Job.LeaveOut = append(p.Job.LeaveOut, rival.Job.ID)
		}
	}
}

// addFirst adds the first of some candidates.
func (p *Plan) addFirst(ctx context.Context, candidates []candidate, messages converter, routes *routes) error {
	c := &candidates[0]
	if c.rival != nil {
		c.rival.Messages++
	}
	switch {
	case c.leftOut != "":
		p.LeftOut[c.leftOut]++
		return nil
	case p.Job.Limit > 0 && p.Matched >= p.Job.Limit:
		c.leftOut = BeyondLimit
		p.LeftOut[BeyondLimit]++
		return nil
	}
	erased, err := messages.isErased(ctx, &c.event)
	switch {
	case err != nil:
		return err
	case erased:
		p.Erased++
		p.match(c)
		return nil
	}
	if messages.program == nil {
		c.event.Envelope = c.recorded // read with its body for isErased alone: a plan without a program shows no original
	}
	e := c.event
	sent, keep, failed, err := p.convert(ctx, candidates, messages)
	if err != nil {
		return err
	}
	if !keep && failed == nil {
		p.LeftOut[FilteredOut]++
		return nil
	}
	p.match(c)
	switch {
	case failed != nil:
		p.Untransformed++
		return nil
	case sent.Properties.ReplyTo != "":
		p.Replies++
	case e.Envelope.Properties.ReplyTo != "":
		p.RepliesDropped++
	}
	to := p.Job.Target.routeOf(e, sent)
	p.addKind(Route{Exchange: sent.Exchange, RoutingKey: sent.RoutingKey, Queue: to.Queue})
	return routes.add(ctx, to, sent)
}

// match adds a message that the job counts.
func (p *Plan) match(c *candidate) {
	e := c.event
	p.Matched++
	if e.Action == schemas.Quarantined {
		p.Quarantined++
	}
	if e.Stream.ID == "" {
		p.Streamless++
	}
	if len(p.Sample) < sampleSize {
		sample := e
		sample.Envelope = c.recorded
		p.Sample = append(p.Sample, sample)
	}
	if p.First.IsZero() || e.Time.Before(p.First) {
		p.First = e.Time
	}
	if e.Time.After(p.Last) {
		p.Last = e.Time
	}
	p.noteFailure(e)
}

const maxKinds = 100

func (p *Plan) addKind(kind Route) {
	i := slices.IndexFunc(p.Kinds, func(k Route) bool {
		return k.Exchange == kind.Exchange && k.RoutingKey == kind.RoutingKey && k.Queue == kind.Queue
	})
	if i < 0 && len(p.Kinds) < maxKinds {
		i, p.Kinds = len(p.Kinds), append(p.Kinds, kind)
	}
	if i >= 0 {
		p.Kinds[i].Messages++
	}
}

// convert returns the message that the job sends for the first of some candidates, or the reason
// why its program fails.
func (p *Plan) convert(ctx context.Context, next []candidate, messages converter) (sent schemas.Envelope, keep bool, failed *transform.Error, err error) {
	e := next[0].event
	if e.Envelope.Redacted && (messages.opener == nil || messages.program != nil && e.BodyIn == schemas.BodyHere) {
		return e.Envelope, false, nil, privacy.Open(ctx, messages.opener, &e)
	}
	sent, keep, err = messages.convert(ctx, next)
	if err != nil && !errors.As(err, &failed) {
		return sent, keep, nil, err
	}
	if messages.program == nil || !keep && failed == nil {
		return sent, keep, failed, nil
	}
	if next[0].mayBeOriginal { // an example would show its values
		return sent, keep, failed, nil
	}
	return sent, keep, failed, p.Examples.Add(e.EventID, p.Job.message(e.Envelope), sent, failed)
}

// noteFailure adds the queue of a failure, up to maxRoutes.
func (p *Plan) noteFailure(e schemas.Event) {
	if a := e.RecordedAction(); e.Queue == "" || a != schemas.Poisoned && a != schemas.RetryScheduled || len(p.FailedAt) >= maxRoutes {
		return
	}
	if i, found := slices.BinarySearch(p.FailedAt, e.Queue); !found {
		p.FailedAt = slices.Insert(p.FailedAt, i, e.Queue)
	}
}
