package client

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/system"
)

// maxQuery is the number of characters of a query that the API takes.
const maxQuery = 4000

// Split returns the parts of a query in Kibana's and in Elasticsearch's language, each as text; "" if it
// has none.
func Split(node kql.Node) (query, dsl string) {
	var rest kql.And
	var raw []string
	for _, part := range conjuncts(node) {
		switch n := part.(type) {
		case kql.All:
		case kql.Raw:
			raw = append(raw, n.JSON)
		default:
			if n.String() != "*" {
				rest = append(rest, n)
			}
		}
	}
	switch len(rest) {
	case 0:
	case 1:
		query = rest[0].String()
	default:
		query = rest.String()
	}
	if dsl = strings.Join(raw, ","); len(raw) > 1 {
		dsl = `{"bool":{"filter":[` + dsl + `]}}`
	}
	return query, dsl
}

// AbsoluteTimes returns a query in which times relative to now are absolute, so that a later
// request with it finds the same events.
func AbsoluteTimes(node kql.Node) (kql.Node, error) {
	fields, err := eventstore.Fields()
	if err != nil {
		return nil, err
	}
	return kql.AbsoluteTimes(node, fields, time.Now()), nil
}

func conjuncts(node kql.Node) []kql.Node {
	and, is := node.(kql.And)
	if !is {
		if node == nil {
			return nil
		}
		return []kql.Node{node}
	}
	var all []kql.Node
	for _, part := range and {
		all = append(all, conjuncts(part)...)
	}
	return all
}

// checkLength returns an error for a part of a query that is longer than a server takes.
func checkLength(name, text string) error {
	if n := utf8.RuneCountInString(text); n > maxQuery {
		return system.InputError{Err: fmt.Errorf("%s: %d characters, with full names of fields, and a server takes %d: use a shorter one, or search without --server", name, n, maxQuery)}
	}
	return nil
}

// filter returns a query as operations on events take it. Where all events are meant, they want the
// query "*".
func filter(node kql.Node) (f eventfilter.QueryFilter) {
	if f.Query, f.DSL = Split(node); !f.HasQuery() {
		f.Query = "*"
	}
	return f
}

// ObjectOf returns a query in Elasticsearch's language as an object; nil for none.
func ObjectOf(dsl string) (object map[string]any, err error) {
	if dsl == "" {
		return nil, nil
	}
	numbers := json.NewDecoder(strings.NewReader(dsl))
	numbers.UseNumber() // which float64 would round
	if err := numbers.Decode(&object); err != nil {
		return nil, system.InputError{Err: fmt.Errorf("--dsl: %w", err)}
	}
	return object, nil
}

// ZoneName returns the name of a zone as the API reads it. time.Local has none: then it is
// the name in TZ or of the link /etc/localtime, or else the offset of now.
func ZoneName(zone *time.Location) string {
	name := zone.String()
	if zone == time.Local {
		name = os.Getenv("TZ")
		if link, err := os.Readlink("/etc/localtime"); name == "" && err == nil {
			_, name, _ = strings.Cut(link, "zoneinfo/")
		}
	}
	if known, err := time.LoadLocation(name); err == nil && name != "" && name != "Local" && sameNow(known, zone) {
		return name
	}
	return time.Now().In(zone).Format("-07:00")
}

// sameNow reports whether zones have the same offset now: TZ may have changed since the
// process was started.
func sameNow(a, b *time.Location) bool {
	now := time.Now()
	_, first := now.In(a).Zone()
	_, second := now.In(b).Zone()
	return first == second
}
