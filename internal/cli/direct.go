package cli

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"math"
	"slices"

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
	set *operation.Set
}

func newDirect(sys *system.System) *direct {
	return &direct{sys, httpapi.Local(sys)}
}

// Do implements operations. Actions have the operator of this process.
func (d *direct) Do(ctx context.Context, op *operation.Operation, in, out any) error {
	err := d.set.Do(access.NewContext(ctx, access.AsOperator(operator())), op, in, out)
	var p *problem.Problem
	switch {
	case !errors.As(err, &p):
		return err
	case p.IsMistake():
		return system.InputError{Err: refusal{p}}
	}
	return refusal{p}
}

// refusal is a problem with its remedy.
type refusal struct{ *problem.Problem }

// Error implements error.
func (r refusal) Error() string { return r.Text(r.Remedy) }

// Unwrap returns the problem.
func (r refusal) Unwrap() error { return r.Problem }

// Texts implements operations.
func (d *direct) Texts(node kql.Node) (query, dsl string, err error) {
	query, dsl = client.Split(node)
	return query, dsl, nil
}

// PageSize implements operations: a page has everything.
func (d *direct) PageSize(int) int { return math.MaxInt }

// Server implements backend.
func (d *direct) Server() httpapi.Version {
	return httpapi.NewVersion(d.Settings(), access.AsOperator(operator()))
}

// Close implements backend.
func (d *direct) Close() error { return d.System.Close() }

// Events implements streams.
func (d *direct) Events(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		store, err := d.Store(ctx)
		if err == nil && sel.Order == eventstore.BySequence {
			sel, err = transfer.ExportSelection(ctx, store, sel)
		}
		if err != nil {
			yield(schemas.Event{}, endOfEvents{err})
			return
		}
		found := false
		for e, err := range store.Events(ctx, sel) {
			if found = true; !yield(e, err) {
				return
			}
		}
		if !found {
			if err := store.Check(ctx); err != nil {
				yield(schemas.Event{}, endOfEvents{err})
			}
		}
	}
}

// endOfEvents is an error that concerns the store, and not one event.
type endOfEvents struct{ error }

// Unwrap returns the errors that it counts as.
func (e endOfEvents) Unwrap() []error {
	return []error{&eventstore.Error{Reason: e.Error()}, e.error}
}

// Validate implements streams.
func (d *direct) Validate(ctx context.Context, schema *bodyschema.Schema, queue string, sel eventstore.Selection, each func(messages.InvalidMessage) error) (_ messages.Summary, err error) {
	if schema == nil {
		if schema, err = messages.RouteSchema(d.System, queue); err != nil {
			return messages.Summary{}, err
		}
	}
	return messages.Stored(ctx, d.System, messages.ValidationConfig{Schema: schema}, sel, each)
}

// Follow implements streams.
func (d *direct) Follow(ctx context.Context, sel eventstore.Selection, last int, to history.Receiver) error {
	store, err := d.Store(ctx)
	if err != nil {
		return err
	}
	return history.Follow(ctx, store, sel, last, to)
}

// unknown returns the ids that name nothing in the store: mistakes in a list.
func (d *direct) unknown(ctx context.Context, ids []string) ([]string, error) {
	store, err := d.Store(ctx)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	return history.UnknownIDs(ctx, store, ids)
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
	if plan.Total == 0 && len(plan.LeftOut) == 0 {
		if err := d.CheckStore(ctx); err != nil {
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

// Publish implements streams.
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
