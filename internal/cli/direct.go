package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operate/transfer"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/gctuning"
	"github.com/watershipmq/watership/pipeline/bodyschema"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// direct is a system by its RabbitMQ and its store.
type direct struct {
	*system.System
	system.EventStore // nil before OpenStore
	set               *operation.Set
}

func newDirect(sys *system.System) *direct {
	return &direct{System: sys, set: httpapi.Local(sys)}
}

// Do implements operations. Actions have the operator of this process.
func (d *direct) Do(ctx context.Context, op *operation.Operation, in, out any) error {
	err := d.set.Do(access.NewContext(ctx, access.AsOperator(operator())), op, in, out)
	var p *problem.Problem
	if !errors.As(err, &p) {
		return err
	}
	err = errors.New(p.Text(p.Remedy))
	if p.IsMistake() {
		return system.InputError{Err: err}
	}
	return err
}

// OpenStore implements reader.
func (d *direct) OpenStore(ctx context.Context) (err error) {
	d.EventStore, err = d.Store(ctx)
	return err
}

// Texts implements operations.
func (d *direct) Texts(node kql.Node) (query, dsl string, err error) {
	query, dsl = client.Split(node)
	return query, dsl, nil
}

// PageSize implements operations: a page has everything.
func (d *direct) PageSize() int { return math.MaxInt }

// Close implements backend.
func (d *direct) Close() error { return d.System.Close() }

// Export implements reader.
func (d *direct) Export(ctx context.Context, sel eventstore.Selection) (iter.Seq2[schemas.Event, error], error) {
	sel, err := transfer.ExportSelection(ctx, d.EventStore, sel)
	return d.Events(ctx, sel), err
}

// Validate implements reader.
func (d *direct) Validate(ctx context.Context, schema *bodyschema.Schema, queue string, sel eventstore.Selection, each func(messages.InvalidMessage) error) (_ messages.Summary, err error) {
	if schema == nil {
		if schema, err = messages.RouteSchema(d.System, queue); err != nil {
			return messages.Summary{}, err
		}
	}
	return messages.Stored(ctx, d.System, messages.ValidationConfig{Schema: schema}, sel, each)
}

// Follow implements reader.
func (d *direct) Follow(ctx context.Context, sel eventstore.Selection, last int, to history.Receiver) error {
	return history.Follow(ctx, d.EventStore, sel, last, to)
}

// Messages implements reader.
func (d *direct) Messages(ctx context.Context, id string) (list []foundMessage, more bool, err error) {
	found, err := history.Find(ctx, d.EventStore, id)
	if err != nil {
		return nil, false, err
	}
	for _, life := range found.List {
		whole, err := life.Whole(ctx, d.EventStore)
		if err != nil {
			return nil, false, err
		}
		list = append(list, foundMessage{Life: life, Event: whole})
	}
	return list, found.More, nil
}

// Stream implements reader.
func (d *direct) Stream(ctx context.Context, id string, limit int) (history.Stream, error) {
	open, err := failures.Unresolved(ctx, d.System)
	if err != nil {
		return history.Stream{}, err
	}
	found, _, err := history.FindStream(ctx, d.EventStore, history.StreamPage{ID: id, Limit: limit, Kept: d.Retention()}, open.Reporters)
	return found, err
}

// Whole implements reader.
func (d *direct) Whole(ctx context.Context, of schemas.Event) (schemas.Event, error) {
	return history.Whole(ctx, d.EventStore, of)
}

// Body implements reader.
func (d *direct) Body(ctx context.Context, id string) ([]byte, error) {
	found, err := history.Find(ctx, d.EventStore, id)
	if err != nil {
		return nil, err
	}
	if len(found.List) > 1 {
		return nil, &severalError{id}
	}
	event, err := found.List[0].Whole(ctx, d.EventStore)
	if err == nil && event.BodyIn != schemas.BodyHere {
		err = fmt.Errorf("no event of message %s has its body", event.Fingerprint)
	}
	return event.Envelope.Body, err
}

// MayReadBodies implements reader.
func (d *direct) MayReadBodies() bool { return true }

// unknown returns the ids that name nothing in the store: mistakes in a list.
func (d *direct) unknown(ctx context.Context, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return history.UnknownIDs(ctx, d.EventStore, ids)
}

// Plan implements replayJobs.
func (d *direct) Plan(ctx context.Context, request replays.Request, uncheckedRoutes bool) (plan client.Plan, err error) {
	request.Job.Operator = cmp.Or(request.Job.Operator, operator())
	job, err := replays.Prepare(d.Language, request)
	if err != nil {
		return plan, err
	}
	planner, err := replays.Planner(ctx, d.System, uncheckedRoutes)
	if err != nil {
		return plan, err
	}
	if plan.Plan, err = planner.Plan(ctx, job); err != nil {
		return plan, err
	}
	if err = d.OpenStore(ctx); err != nil {
		return plan, err
	}
	if plan.Total == 0 && len(plan.LeftOut) == 0 {
		if err := d.Check(ctx); err != nil {
			return plan, err
		}
	}
	if plan.Parked, err = failures.FindParkedCopies(ctx, d.System, plan.FailedAt); err != nil {
		return plan, err
	}
	plan.Unknown, err = d.unknown(ctx, request.IDs)
	return plan, err
}

// Start implements replayJobs.
func (d *direct) Start(ctx context.Context, plan client.Plan, stopAfter int, progress func(replayer.Job)) (replayer.Job, error) {
	jobs, err := replays.Replayer(ctx, d.System)
	if err != nil {
		return replayer.Job{}, err
	}
	job, err := jobs.Create(ctx, plan.Plan)
	if err != nil {
		return replayer.Job{}, err
	}
	return run(ctx, jobs, job, stopAfter, progress)
}

// run returns the job as it was before if it could not be read.
func run(ctx context.Context, jobs *replayer.Replayer, job replayer.Job, stopAfter int, progress func(replayer.Job)) (replayer.Job, error) {
	gctuning.Apply(gctuning.ReplayLimit)
	ran, err := jobs.Run(ctx, job.ID, replayer.RunOptions{StopAfter: stopAfter, Expected: &job, Progress: progress})
	if ran.ID == "" {
		ran = job
	}
	return ran, err
}

// Resume implements replayJobs.
func (d *direct) Resume(ctx context.Context, job replayer.Job, progress func(replayer.Job)) (replayer.Job, error) {
	jobs, err := replays.Replayer(ctx, d.System)
	if err != nil {
		return job, err
	}
	return run(ctx, jobs, job, 0, progress)
}

// Publish implements backend.
func (d *direct) Publish(ctx context.Context, messages iter.Seq2[schemas.Envelope, error], perSecond float64, progress func(confirmed int)) (int, error) {
	publisher, err := d.Publisher(ctx)
	if err != nil {
		return 0, err
	}
	toSend := func(yield func(rabbit.Message, error) bool) {
		for e, err := range messages {
			if !yield(transfer.ForLogin(e, d.Login()), err) {
				return
			}
		}
	}
	return transfer.Publish(ctx, publisher, toSend, perSecond, progress)
}

// Retention implements backend.
func (d *direct) Retention() time.Duration { return d.Settings().Store.Retention.Traffic }

// Exchanges returns the exchanges of the configuration and of the broker, without
// Watership's.
func (d *direct) Exchanges(ctx context.Context) []string {
	names := map[string]bool{}
	for _, tap := range d.Settings().Tap.Exchanges {
		names[tap.Name] = true
	}
	for _, route := range d.Settings().Routes {
		for _, bind := range route.Bind {
			names[bind.Exchange] = true
		}
	}
	if management, err := d.Management(); err == nil {
		existing, _ := management.Exchanges(ctx, d.VHost())
		for _, exchange := range existing {
			if exchange.Name != "" && !exchange.Internal && !d.Topology().Owns(exchange.Name) {
				names[exchange.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Queues returns the queues of the configuration and of the broker, without Watership's.
func (d *direct) Queues(ctx context.Context) []string {
	names := map[string]bool{}
	for _, route := range d.Settings().Routes {
		names[route.Queue] = true
	}
	if management, err := d.Management(); err == nil {
		existing, _ := management.Queues(ctx, d.VHost())
		for _, queue := range existing {
			if !d.Topology().Owns(queue.Name) {
				names[queue.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
