package messages

import (
	"context"
	"fmt"
	"slices"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/pipeline/bodyschema"
)

// RouteSchema reads the schema that the configuration names for the route of a queue, as the
// next reload would.
func RouteSchema(sys *system.System, queue string) (*bodyschema.Schema, error) {
	routes := sys.Settings().Routes
	i := slices.IndexFunc(routes, func(r config.Route) bool { return r.Queue == queue })
	if i < 0 {
		return nil, system.InputError{Err: fmt.Errorf("the configuration has no route of queue %s", queue)}
	}
	if routes[i].Schema == "" {
		return nil, system.InputError{Err: fmt.Errorf("the route of queue %s has no schema", queue)}
	}
	schema, err := bodyschema.Load(routes[i].Schema)
	if err != nil {
		return nil, system.InputError{Err: err}
	}
	return schema, nil
}

// hasSchema reports whether the route of a queue has a schema.
func hasSchema(routes []config.Route, queue string) bool {
	return slices.ContainsFunc(routes, func(r config.Route) bool { return r.Queue == queue && r.Schema != "" })
}

// Stored checks the bodies of the messages of a selection of a System's store with a schema. It
// sets the store of the ValidationConfig.
func Stored(ctx context.Context, sys *system.System, cfg ValidationConfig, sel eventstore.Selection, each func(InvalidMessage) error) (Summary, error) {
	store, err := sys.Store(ctx)
	if err != nil {
		return Summary{}, err
	}
	sel.Order = eventstore.BySequence
	if sel.UpTo, err = store.HighestSequence(ctx); err != nil {
		return Summary{}, err
	}
	cfg.Store, cfg.Fingerprints = store, sys.Settings().Fingerprint
	summary, err := Run(ctx, cfg, sel, each)
	if err == nil && summary.Messages+summary.Unknown == 0 {
		err = store.Check(ctx) // may be the reason
	}
	return summary, err
}
