package app

import (
	"context"
	"slices"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/validation"
	"github.com/watershipmq/watership/pipeline/bodyschema"
)

// RouteSchema reads the schema that the configuration names for the route of a queue, as the
// next reload would.
func (a *App) RouteSchema(queue string) (*bodyschema.Schema, error) {
	routes := a.configured().Routes
	i := slices.IndexFunc(routes, func(r config.Route) bool { return r.Queue == queue })
	if i < 0 {
		return nil, inputErrorf("the configuration has no route of queue %s", queue)
	}
	if routes[i].Schema == "" {
		return nil, inputErrorf("the route of queue %s has no schema", queue)
	}
	schema, err := bodyschema.Load(routes[i].Schema)
	if err != nil {
		return nil, InputError{err}
	}
	return schema, nil
}

// Validate checks the bodies of the messages of a selection. checked is called after each; it
// may be nil.
func (a *App) Validate(ctx context.Context, schema *bodyschema.Schema, sel eventstore.Selection, each func(validation.Failure) error, checked func() error) (validation.Summary, error) {
	store, err := a.Store(ctx)
	if err != nil {
		return validation.Summary{}, err
	}
	sel.Order = eventstore.BySequence
	if sel.UpTo, err = store.HighestSequence(ctx); err != nil {
		return validation.Summary{}, err
	}
	return validation.Run(ctx, validation.Config{Store: store, Fingerprints: a.settings.Fingerprint, Schema: schema, Checked: checked}, sel, each)
}
