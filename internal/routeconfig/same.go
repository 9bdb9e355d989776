package routeconfig

import (
	"reflect"

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
