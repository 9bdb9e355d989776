package access

import (
	"fmt"
	"slices"
	"strings"

	"github.com/watershipmq/watership/eventstore/kql"
)

// Fields of documents that decide who may see an event.
const (
	queueField    = "watership.queue"
	exchangeField = "messaging.destination.name"
	bodyObject    = "body"
)

// Restrict returns a query for only those events that a query matches and the identity may
// see. The fields of the query must be resolved (kql.Resolve). An identity that may
// not read bodies may not search them either, since the results would tell their
// content.
//
// Limits are on the queue of an event that has one, and otherwise on the exchange of its
// message. Events of neither, such as records of actions, are for identities without
// limits.
func (i Identity) Restrict(query kql.Node) (kql.Node, error) {
	if query == nil {
		query = kql.All{}
	}
	if i.Role == 0 {
		return nil, fmt.Errorf("no role: expected one of %s", strings.Join(roleNames(), ", "))
	}
	if !i.Bodies {
		if err := checkBodies(query); err != nil {
			return nil, err
		}
	}
	if !i.Limited() {
		return query, nil
	}
	return kql.And{query, i.visible()}, nil
}

// visible matches the events that an identity with limits may see.
func (i Identity) visible() kql.Node {
	published := append(kql.And{kql.Not{Node: kql.Exists{Field: kql.Pattern{queueField}}}}, anyOf(exchangeField, i.Exchanges))
	return kql.Or{anyOf(queueField, i.Queues), published}
}

// anyOf matches the values of a field that match any pattern.
func anyOf(field string, patterns []string) kql.Node {
	if len(patterns) == 0 {
		return kql.Not{Node: kql.All{}}
	}
	either := make(kql.Or, len(patterns))
	for n, text := range patterns {
		p := pattern(text)
		either[n] = kql.Is{Field: kql.Pattern{field}, Value: kql.Value{Pattern: p, Quoted: !p.Wild()}}
	}
	if len(either) == 1 {
		return either[0]
	}
	return either
}

// checkBodies refuses a query that searches bodies.
func checkBodies(query kql.Node) error {
	switch n := query.(type) {
	case kql.And:
		return firstError(n)
	case kql.Or:
		return firstError(n)
	case kql.Not:
		return checkBodies(n.Node)
	case kql.All:
		return nil
	case kql.Is:
		if n.Field == nil {
			return &BodySearchError{fmt.Sprintf("%q searches all fields, bodies among them, which the caller may not read: name a field, such as error.message", n.Value.Pattern.Text())}
		}
		return checkField(n.Field)
	case kql.Exists:
		return checkField(n.Field)
	case kql.Range:
		return checkField(n.Field)
	}
	return &BodySearchError{"the query is not KQL, so it may search bodies, which the caller may not read"}
}

func firstError(nodes []kql.Node) error {
	at := slices.IndexFunc(nodes, func(n kql.Node) bool { return checkBodies(n) != nil })
	if at < 0 {
		return nil
	}
	return checkBodies(nodes[at])
}

// checkField refuses the name of a body's field, and a pattern that may match one.
func checkField(name kql.Pattern) error {
	first := name[0]
	body := first == bodyObject || strings.HasPrefix(first, bodyObject+".") ||
		name.Wild() && (strings.HasPrefix(bodyObject, first) || strings.HasPrefix(first, bodyObject))
	if body {
		return &BodySearchError{fmt.Sprintf("%s searches bodies, which the caller may not read", name.Text())}
	}
	return nil
}

// BodySearchError is returned for a query on bodies by an identity that may not read
// them.
type BodySearchError struct{ Problem string }

// Error implements error.
func (e *BodySearchError) Error() string {
	return e.Problem
}

// Remedy returns a remedy for the caller.
func (e *BodySearchError) Remedy() string { return bodiesRemedy }

const bodiesRemedy = "Ask an administrator for a token with the permission to read bodies, or for bodies in http.auth.oidc.roles."
