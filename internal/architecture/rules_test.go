// Package architecture tests the rules of the source tree: which package may import
// which, and that documents name files that exist.
package architecture

import (
	"fmt"
	"slices"
	"strings"
)

const module = "github.com/watershipmq/watership"

// pkg has the import path of a package and the paths of its imports.
type pkg struct {
	ImportPath string
	Imports    []string
}

// rule forbids the packages under from to depend on any under not, directly or
// through others. Paths are within the module; an empty one is all of it.
type rule struct {
	why  string
	from []string
	not  []string
	save []string // from not
}

func rules() []rule {
	parts := []string{"indexer", "replayer", "pipeline", "subscription"}
	stores := []string{"eventstore/elastic", "eventstore/sqlite"}
	changes := []string{"replayer/transform", "replayer/edit"} // of messages, which they do not send
	list := []rule{
		{why: "schemas is the leaf that all others share", from: []string{"schemas"}, not: []string{""}, save: []string{"schemas", "internal/wire/header", "internal/wire/canonical", "internal/wire/fold"}},
		{why: "retry decides and knows nothing else", from: []string{"retry"}, not: []string{""}, save: []string{"retry"}},
		{why: "a store serves the parts and does not know them", from: stores, not: slices.Concat(parts, []string{"internal/cli", "cmd"})},
		{why: "only the command knows every part", from: []string{""}, not: []string{"internal/cli", "cmd"}},
		{why: "kibana knows documents and no part", from: []string{"internal/server/kibana"}, not: slices.Concat(parts, stores)},
		{why: "breaker delivers and publishes nothing", from: []string{"pipeline/internal/admission/breaker"}, not: []string{""}, save: []string{"pipeline/internal/admission/breaker", "internal/backoff", "retry", "schemas", "internal/wire"}},
		{why: "usercode calls functions and knows no message", from: []string{"internal/handler/usercode"}, not: []string{""}, save: []string{"internal/handler/usercode", "retry"}},
		{why: "topology declares and moves no message", from: []string{"internal/topology"}, not: slices.Concat(parts, stores)},
		{why: "terminal prints and knows no part", from: []string{"internal/cli/terminal"}, not: []string{""}, save: []string{"internal/cli/terminal", "internal/render/wording", "internal/render/typo", "schemas", "internal/wire", "eventstore/kql"}},
		{why: "the suite of the stores is for tests", from: []string{""}, not: []string{"eventstore/storetest"}},
		{why: "projection reads by a subscription and writes to a database", from: []string{"projection"}, not: slices.Concat([]string{"indexer", "replayer", "pipeline"}, stores), save: changes},
		{why: "outbox is of handlers and knows no event", from: []string{"outbox"}, not: slices.Concat([]string{"indexer", "replayer", "subscription", "projection"}, stores)},
		{why: "database knows SQL only", from: []string{"internal/database"}, not: []string{""}, save: []string{"internal/database", "retry"}},
		{why: "the databases of the tests are for tests", from: []string{""}, not: []string{"internal/database/databasetest"}},
		{why: "backoff knows time only", from: []string{"internal/backoff"}, not: []string{""}, save: []string{"internal/backoff"}},
		{why: "access decides about requests and knows no part", from: []string{"internal/operation/access"}, not: []string{""}, save: []string{"internal/operation/access", "internal/operation/code", "internal/rabbit/tlsfiles", "internal/render/typo", "eventstore/kql"}},
		{why: "tlsfiles knows files only", from: []string{"internal/rabbit/tlsfiles"}, not: []string{""}, save: []string{"internal/rabbit/tlsfiles"}},
		{why: "amqpstream knows headers and nothing else", from: []string{"internal/rabbit/amqpstream"}, not: []string{""}, save: []string{"internal/rabbit/amqpstream", "schemas", "internal/wire"}},
		{why: "rabbit is a client that no part shapes; its tests start the broker", from: []string{"internal/rabbit"}, not: []string{""}, save: []string{"internal/rabbit", "internal/rabbit/amqpstream", "internal/backoff", "internal/rabbit/tlsfiles", "rabbitmq", "schemas", "internal/wire", "broker"}},
		{why: "wire knows messages and no part", from: []string{"internal/wire"}, not: []string{""}, save: []string{"internal/wire", "schemas"}},
		{why: "rabbitmq knows no part", from: []string{"rabbitmq"}, not: []string{""}, save: []string{"rabbitmq"}},
		{why: "broker works in a module of its own", from: []string{"broker"}, not: []string{""}, save: []string{"broker"}},
		{why: "the suite of the brokers is for tests", from: []string{""}, not: []string{"broker/brokertest"}},
	}
	for _, part := range parts {
		others := slices.DeleteFunc(slices.Clone(parts), func(other string) bool { return other == part })
		list = append(list,
			rule{why: "the parts do not know one another", from: []string{part}, not: others, save: changes},
			rule{why: "a part states what it needs of a store and does not know which", from: []string{part}, not: stores},
		)
	}
	return list
}

// violations returns the chains of imports that break a rule, as texts.
func violations(packages []pkg) []string {
	var found []string
	for _, r := range rules() {
		for _, p := range packages {
			if !under(p.ImportPath, r.from) || r.exempts(p.ImportPath) {
				continue
			}
			if way := wayTo(p.ImportPath, packages, r.forbids); way != nil {
				found = append(found, fmt.Sprintf("%s: %s", strings.Join(way, " → "), r.why))
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// exempts reports whether a package is itself one of the forbidden packages of a rule
// for all: forbidden packages may import each other.
func (r rule) exempts(path string) bool { return slices.Contains(r.from, "") && under(path, r.not) }

func (r rule) forbids(path string) bool { return under(path, r.not) && !under(path, r.save) }

// wayTo returns a shortest chain of imports from a package to a forbidden one, or nil.
func wayTo(from string, packages []pkg, forbidden func(string) bool) []string {
	imports := map[string][]string{}
	for _, p := range packages {
		imports[p.ImportPath] = p.Imports
	}
	seen := map[string]bool{from: true}
	for ways := [][]string{{from}}; len(ways) > 0; ways = ways[1:] {
		way := ways[0]
		for _, next := range imports[way[len(way)-1]] {
			longer := append(slices.Clone(way), next)
			if forbidden(next) {
				return longer
			}
			if !seen[next] {
				seen[next] = true
				ways = append(ways, longer)
			}
		}
	}
	return nil
}

// under reports whether path is one of dirs or below one.
func under(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		base := strings.TrimSuffix(module+"/"+dir, "/")
		return path == base || strings.HasPrefix(path, base+"/")
	})
}
