package eventstore

import (
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/topology/topicpattern"
	"github.com/watershipmq/watership/schemas"
)

// KeepRule gives the published events that match all of its fields another period.
type KeepRule struct {
	Exchange string            `json:"exchange,omitempty"` // of the first publish; "": every exchange
	Key      string            `json:"key,omitempty"`      // pattern of routing keys, as of a topic exchange; "": every key
	Stream   string            `json:"stream,omitempty"`   // pattern of ids of streams, in which * is any text; "": no stream either
	Labels   map[string]string `json:"labels,omitempty"`   // values of headers by their names

	// Keep is the period, in whole hours; 0 is for ever.
	Keep time.Duration `json:"keep"`
}

// KeepRules say how long published events are kept. The first that matches decides. If none does, it
// is the retention of traffic.
type KeepRules []KeepRule

// StreamOf returns the data stream of an event.
func (rules KeepRules) StreamOf(e schemas.Event) schemas.Stream {
	if e.Action == schemas.Published {
		for _, rule := range rules {
			if rule.matches(e) {
				return rule.stream()
			}
		}
	}
	return e.Action.Stream()
}

// Streams returns the data streams of the periods, each once.
func (rules KeepRules) Streams() []schemas.Stream {
	var streams []schemas.Stream
	for _, rule := range rules {
		streams = append(streams, rule.stream())
	}
	slices.Sort(streams)
	return slices.Compact(streams)
}

// CanHold reports whether a stream may have events that match a resolved query, if these rules were
// applied when the events were recorded.
func (rules KeepRules) CanHold(stream schemas.Stream, query kql.Node) bool {
	if !canMatch(query, stream) {
		return false
	}
	if stream.Base() != schemas.Traffic {
		return true
	}
	for _, rule := range rules {
		matched := rule.matchedBy(query)
		if matched != noEvent && rule.stream() == stream {
			return true
		}
		if isPublished := (exactly{[]string{"event.action"}, string(schemas.Published)}); matched == eachEvent && matchedBy(query, isPublished) == eachEvent {
			return false // none is left for the rules that follow
		}
	}
	return stream == schemas.Traffic
}

func (rule KeepRule) stream() schemas.Stream { return schemas.Traffic.For(rule.Keep) }

func (rule KeepRule) matches(e schemas.Event) bool {
	if rule.Exchange != "" && rule.Exchange != e.Envelope.Exchange ||
		rule.Key != "" && !topicpattern.Matches(rule.Key, e.Envelope.RoutingKey) ||
		rule.Stream != "" && (e.Stream.ID == "" || !anyText(rule.Stream).Match(e.Stream.ID)) {
		return false
	}
	for name, value := range rule.Labels {
		if text, ok := e.Envelope.HeaderText(name); !ok || text != value {
			return false
		}
	}
	return true
}

func anyText(pattern string) kql.Pattern { return strings.Split(pattern, "*") }

// share says which of the events that a query matches a rule matches as well.
type share int

const (
	someEvents share = iota // or not known
	eachEvent
	noEvent
)

// matchedBy returns which of the events of a query a rule matches.
func (rule KeepRule) matchedBy(query kql.Node) share {
	var conditions []condition
	if rule.Exchange != "" {
		conditions = append(conditions, exactly{[]string{"messaging.destination.name"}, rule.Exchange})
	}
	if rule.Key != "" {
		conditions = append(conditions, topic(rule.Key))
	}
	if rule.Stream != "" {
		conditions = append(conditions, streamLike(anyText(rule.Stream)))
	}
	for name, value := range rule.Labels {
		var fields []string
		if !strings.ContainsAny(name, "._") { // headers.NAME also has the values of lists, and labels.a_b the value of a.b or of a_b
			fields = []string{"labels." + name}
		}
		conditions = append(conditions, exactly{fields, value})
	}
	of := eachEvent
	for _, c := range conditions {
		switch matchedBy(query, c) {
		case noEvent:
			return noEvent
		case someEvents:
			of = someEvents
		}
	}
	return of
}

// condition is a condition of a rule.
type condition interface {
	// of returns which of the values of a field that match a pattern meet the condition.
	of(field string, value kql.Pattern) share
}

func matchedBy(query kql.Node, c condition) share {
	switch n := query.(type) {
	case kql.And:
		for _, node := range n {
			if of := matchedBy(node, c); of != someEvents {
				return of
			}
		}
	case kql.Or:
		return matchedByEach(n, c)
	case kql.Is:
		return c.of(n.Field.Text(), n.Value.Pattern)
	case kql.Exists:
		return c.of(n.Field.Text(), kql.Pattern{"", ""})
	}
	return someEvents
}

// matchedByEach returns the events that all nodes match.
func matchedByEach(nodes kql.Or, c condition) share {
	common := someEvents
	for i, node := range nodes {
		of := matchedBy(node, c)
		if i > 0 && of != common {
			return someEvents
		}
		common = of
	}
	return common
}

// exactly is the condition that a field, which has several names, has one value.
type exactly struct {
	fields []string
	value  string
}

func (c exactly) of(field string, value kql.Pattern) share {
	switch {
	case !slices.Contains(c.fields, field):
		return someEvents
	case !value.Match(c.value):
		return noEvent
	case value.Wild():
		return someEvents
	}
	return eachEvent
}

// topic is the condition that the routing key matches a pattern of a topic exchange.
type topic string

func (c topic) of(field string, value kql.Pattern) share {
	beginning, _, _ := strings.Cut(strings.ReplaceAll(string(c), "#", "*"), "*")
	words, endsOpen := strings.CutSuffix(string(c), ".#")
	switch {
	case field != "messaging.rabbitmq.destination.routing_key":
		return someEvents
	case !value.Wild() && topicpattern.Matches(string(c), value.Text()):
		return eachEvent
	case !value.Wild():
		return noEvent
	case c == "#", endsOpen && beginning == words+"." && strings.HasPrefix(value[0], beginning):
		return eachEvent
	case !together(value[0], strings.TrimSuffix(beginning, ".")):
		return noEvent
	}
	return someEvents
}

// streamLike is the condition that the message has a stream with an id like a pattern.
type streamLike kql.Pattern

func (c streamLike) of(field string, value kql.Pattern) share {
	pattern := kql.Pattern(c)
	beginning, endsOpen := pattern.Prefix()
	switch {
	case field != "watership.stream.id":
		return someEvents
	case !value.Wild() && pattern.Match(value.Text()):
		return eachEvent
	case !value.Wild():
		return noEvent
	case endsOpen && strings.HasPrefix(value[0], beginning):
		return eachEvent
	case !together(value[0], pattern[0]):
		return noEvent
	}
	return someEvents
}

// together reports whether one text can begin with both.
func together(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }
