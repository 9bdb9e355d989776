package routes

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/schemas"
)

// addOpenFailures lets the routes of settings with an ordering find failures in the store, if their key is a
// field by which events are found.
func addOpenFailures(sys *system.System, settings []config.Route, routes []pipeline.Route) {
	for i, route := range routes {
		at := slices.IndexFunc(settings, func(r config.Route) bool { return r.Queue == route.Queue })
		field, searched := searchedKey(settings[at].Ordering.Key)
		if !searched {
			continue
		}
		routes[i].Ordering.Open = func(ctx context.Context, key, fingerprint string, earlier func(schemas.Envelope, time.Time) bool) (bool, error) {
			store, err := sys.Store(ctx)
			if err != nil {
				return false, err
			}
			return history.Unhandled(ctx, store, route.Queue, kql.FieldIs(field, key), fingerprint, earlier)
		}
	}
}

// searchedKey returns the field that a template consists of, if events are found by it.
func searchedKey(template string) (field string, searched bool) {
	field, last := strings.CutSuffix(template, "}")
	field, first := strings.CutPrefix(field, "{")
	searched = first && last && !strings.ContainsAny(field, "{}") && (strings.HasPrefix(field, "headers.") || strings.HasPrefix(field, "body.json."))
	return field, searched
}
