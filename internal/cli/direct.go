package cli

import (
	"context"
	"errors"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/watershipmq/watership/internal/operation/audit"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operate/adoptions"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operate/transfer"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/pipeline/bodyschema"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

// direct is a system by its RabbitMQ and its store.
type direct struct {
	*system.System
	set *operation.Set
}

func newDirect(sys *system.System) *direct {
	return &direct{sys, httpapi.Local(sys)}
}

// Do implements operations. The result of an action names its operator, as a job or an event of a
// failure does, or else an audit event does, as a server records it.
func (d *direct) Do(ctx context.Context, op *operation.Operation, in, out any) error {
	do := func(ctx context.Context) error { return d.set.Do(ctx, op, in, out) }
	if op.Unsigned {
		return d.recorded(ctx, do)
	}
	return refused(do(asOperator(ctx)))
}

// recorded does an action with an audit event, and returns the errors of both. A store can be mended while RabbitMQ is down, so that an
// event is needed only for an operator who has said a name or a reason.
func (d *direct) recorded(ctx context.Context, do func(ctx context.Context) error) error {
	named := access.FromContext(ctx).Name != ""
	return access.Do(asOperator(ctx), audit.Recorder{System: d.System}, named, func(ctx context.Context) error { return refused(do(ctx)) })
}

// asOperator returns a context whose actions have an operator: the user of this process if --operator
// names none.
func asOperator(ctx context.Context) context.Context {
	if access.FromContext(ctx).Name != "" {
		return ctx
	}
	return access.NewContext(ctx, access.AsOperator(operator()))
}

// refused returns an error with the remedy of its problem.
func refused(err error) error {
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
			yield(schemas.Event{}, endOfList{err})
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
				yield(schemas.Event{}, endOfList{err})
			}
		}
	}
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

// Watch implements streams.
func (d *direct) Watch(ctx context.Context, job replayer.Job, stopAfter int, progress func(replayer.Job)) (replayer.Job, error) {
	return replays.ByWatcher{}.Watch(ctx, d.System, job, stopAfter, progress)
}

// FollowTo implements streams.
func (d *direct) FollowTo(ctx context.Context, query, queue string, progress func(subscription.Checkpoint)) error {
	all, err := d.Subscriptions(ctx)
	if err != nil {
		return err
	}
	target := subscription.Target{Kind: subscription.ToQueue, Queue: queue}
	return all.Follow(ctx, subscription.Subscription{Query: query, Target: target}, subscription.From{}, progress)
}

// Adopt implements streams.
func (d *direct) Adopt(ctx context.Context, r adoptions.Request, follow bool) (done adoptions.Result, err error) {
	err = d.recorded(ctx, func(ctx context.Context) (err error) {
		done, err = adoptions.Service{System: d.System}.Adopt(ctx, r, follow)
		return err
	})
	return done, err
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
