package routeconfig

import (
	"maps"
	"reflect"
	"slices"

	"github.com/watershipmq/watership/internal/config"
)

// State is what routes were made of.
type State struct {
	Settings config.Config
	Files    Files
}

// Same reports whether the route of a queue is made of the same settings and files in another
// state.
func (s State) Same(other State, queue string) bool {
	of := func(s State) (all struct {
		route   config.Route
		policy  any
		secrets [][]byte
		schema  string
		found   bool
	},
	) {
		for _, r := range s.Settings.Routes {
			if r.Queue == queue {
				all.route, all.found = r, true
				all.policy = s.Settings.Retry.Policies[r.Retry]
			}
		}
		all.secrets = s.Files.secrets[queue]
		if schema := s.Files.schemas[queue]; schema != nil {
			all.schema = schema.Digest()
		}
		return all
	}
	before, after := of(s), of(other)
	return before.found && after.found && reflect.DeepEqual(before, after)
}

// RouteChanges are the queues of routes that differ between two states, sorted.
type RouteChanges struct {
	Added   []string `json:"added" nullable:"false"`
	Changed []string `json:"changed" nullable:"false" doc:"By a setting, or by a file that they name"`
	Removed []string `json:"removed" nullable:"false"`
}

// NoChanges returns changes with empty lists.
func NoChanges() RouteChanges {
	return RouteChanges{Added: []string{}, Changed: []string{}, Removed: []string{}}
}

// IsEmpty reports whether all routes are as before.
func (c RouteChanges) IsEmpty() bool { return len(c.Added)+len(c.Changed)+len(c.Removed) == 0 }

// Changes returns the routes that are not the same in a later state.
func (s State) Changes(later State) RouteChanges {
	c := NoChanges()
	before, after := s.queues(), later.queues()
	for _, queue := range slices.Sorted(maps.Keys(before)) {
		switch {
		case !after[queue]:
			c.Removed = append(c.Removed, queue)
		case !s.Same(later, queue):
			c.Changed = append(c.Changed, queue)
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(after)) {
		if !before[queue] {
			c.Added = append(c.Added, queue)
		}
	}
	return c
}

func (s State) queues() map[string]bool {
	queues := map[string]bool{}
	for _, route := range s.Settings.Routes {
		queues[route.Queue] = true
	}
	return queues
}
