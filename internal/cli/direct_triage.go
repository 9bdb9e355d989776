package cli

import (
	"context"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/operate/failures"
)

func (d *direct) triager() failures.Service { return failures.Service{System: d.System} }

// Groups implements triager.
func (d *direct) Groups(ctx context.Context, node kql.Node, withMuted bool) (failures.Groups, error) {
	return d.triager().List(ctx, node, kql.All{}, withMuted)
}

// Group implements triager.
func (d *direct) Group(ctx context.Context, id string) (*failures.FailureGroup, error) {
	return d.triager().Find(ctx, id, kql.All{})
}

// FailuresBy implements triager.
func (d *direct) FailuresBy(ctx context.Context, node kql.Node, names []string) (failures.FailuresBy, error) {
	fields, err := failures.Fields(d, names)
	if err != nil {
		return failures.FailuresBy{}, err
	}
	return d.triager().ListBy(ctx, node, fields)
}

// Triage implements triager.
func (d *direct) Triage(ctx context.Context, id string, change failures.Change) (failures.GroupDecided, error) {
	g, err := d.Group(ctx, id)
	if err != nil {
		return failures.GroupDecided{}, err
	}
	return d.triager().Decide(ctx, g, change, operator())
}

// FindToResolve implements triager.
func (d *direct) FindToResolve(ctx context.Context, wanted client.Resolve, _ string) (resolvable, error) {
	found, err := d.triager().Resolvable(ctx, wanted.Query, kql.All{}, wanted.Groups, 0)
	return resolvable{Resolve: wanted, count: len(found.Failures), groups: found.Groups, found: found}, err
}

// Resolve implements triager.
func (d *direct) Resolve(ctx context.Context, found resolvable, reason string) (resolved, error) {
	done, err := d.triager().Resolve(ctx, found.found, decision(reason))
	result := resolved{failures: done.Failures, groups: done.Resolved, open: done.Open, missing: done.Missing}
	if err != nil {
		return result, err
	}
	result.parked, err = failures.FindParkedCopies(ctx, d.System, done.Queues)
	return result, err
}

// FindToResolve implements triager.
func (r remote) FindToResolve(ctx context.Context, wanted client.Resolve, reason string) (resolvable, error) {
	found, err := r.CountToResolve(ctx, wanted, reason)
	wanted.UpTo = found.UpTo
	return resolvable{Resolve: wanted, count: found.Matched, groups: found.Groups}, err
}

// Resolve implements triager.
func (r remote) Resolve(ctx context.Context, found resolvable, reason string) (resolved, error) {
	done, err := r.Client.Resolve(ctx, found.Resolve, found.count, reason)
	result := resolved{failures: done.Failures, groups: done.Resolved, open: done.Open, missing: done.Missing}
	result.parked = done.Parked
	return result, err
}
