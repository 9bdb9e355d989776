package kql

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Any field with one letter wrong, missing or too many is suggested, in its whole name
// and in its last segment.
func TestTypingErrorsAreSuggested(t *testing.T) {
	for _, field := range testFields.names() {
		for _, name := range []string{field, field[strings.LastIndexByte(field, '.')+1:]} {
			if len(name) < 4 {
				continue
			}
			for at := range name {
				for _, wrong := range []string{name[:at] + "~" + name[at:], name[:at] + "~" + name[at+1:], name[:at] + name[at+1:]} {
					if _, known := testFields.Lookup(wrong); known {
						continue // such as a key of headers
					}
					if near := testFields.near(wrong); !slices.Contains(near, field) {
						t.Errorf("%s: %q is not among the names near %q: %q", field, name, wrong, near)
					}
				}
			}
		}
	}
}

// At most three names are suggested, the nearest first.
func TestNearestFirst(t *testing.T) {
	var fields Fields
	for _, name := range []string{"queue.abcdefzzz", "queue.abcdefz", "queue.abcdef", "queue.abcdefzz", "queue.other"} {
		fields.Known = append(fields.Known, Field{Name: name, Type: Keyword})
	}
	want := []string{"queue.abcdef", "queue.abcdefz", "queue.abcdefzz"}
	if got := fields.near("queue.abcdef"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := testFields.near("jd"); !slices.Contains(got, "event.id") {
		t.Errorf("near jd are %q, without event.id", got)
	}
	if got := fields.near("nothing like it"); got != nil {
		t.Errorf("got %q for a name that is like none", got)
	}
}

// The error for a name says how to come to a field from it.
func TestUnknownNamesHaveAWayOn(t *testing.T) {
	for name, want := range map[string]string{
		"watership":                  `"watership" is an object, which has no value; write watership.queue, watership.attempt, watership.class, watership.attempts.class, watership.fingerprint or watership.ours`,
		"watership.nothing.like.any": `no field "watership.nothing.like.any"; watership has the fields watership.queue, watership.attempt, watership.class, watership.attempts.class, watership.fingerprint or watership.ours`,
		"_id":                        `_id is a field of Elasticsearch and of no event; search fields of events, such as event.id`,
		"amqp":                       `amqp is not indexed: search headers.NAME`,
		"amqp.headers.x":             `amqp is not indexed: search headers.NAME`,
		"amqpx":                      `no field "amqpx"; a key of that name is body.json.amqpx or headers.amqpx`,
		"customer":                   `no field "customer"; a key of that name is body.json.customer or headers.customer`,
		"two words":                  `no field "two words"; a key of that name is body.json.two words or headers.two words`,
		"a:b":                        `no field "a:b"; a key of that name is body.json.a\:b or headers.a\:b`,
	} {
		err := testFields.unknown(name, Place{})
		if err.Error() != want {
			t.Errorf("%s:\n got %s\nwant %s", name, err, want)
		}
	}
	none := Fields{Known: []Field{{Name: "a", Type: Keyword}}}
	if err := none.unknown("something", Place{}); err.Error() != `no field "something"` {
		t.Errorf("without flattened fields: %s", err)
	}
}

// Suggested names are written as a query has to have them.
func TestAlternativesAreWrittenForAQuery(t *testing.T) {
	for count, want := range map[int]string{1: `a\:0`, 2: `a\:0 or a\:1`, 4: `a\:0, a\:1, a\:2 or a\:3`} {
		var names []string
		for n := range count {
			names = append(names, fmt.Sprintf("a:%d", n))
		}
		if got := alternatives(names); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A short name means the field, and no shorter one does.
func TestShort(t *testing.T) {
	fields := Fields{
		Known: []Field{
			{Name: "event.id"},
			{Name: "messaging.message.id"},
			{Name: "watership.queue"},
			{Name: "@timestamp"},
			{Name: "watership.class"},
			{Name: "watership.attempts.class"},
			{Name: "labels.*"},
			{Name: "headers", Type: Flattened},
		},
		Labels: []string{"labels.tenant", "labels.queue"},
	}
	for full, want := range map[string]string{
		"event.id": "event.id", "messaging.message.id": "message.id", "watership.queue": "queue", "@timestamp": "@timestamp",
		"watership.class": "class", "watership.attempts.class": "attempts.class", "labels.tenant": "tenant", "labels.queue": "labels.queue",
	} {
		if got := fields.Short(full); got != want {
			t.Errorf("%s: got %s, want %s", full, got, want)
		}
	}
}
