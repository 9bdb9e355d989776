package kql

import (
	"errors"
	"testing"
)

var testFields = Fields{
	Known: []Field{
		{Name: "@timestamp", Type: Date},
		{Name: "event.id", Type: Keyword},
		{Name: "event.action", Type: Keyword},
		{Name: "event.duration", Type: Long},
		{Name: "event.ingested", Type: Date},
		{Name: "messaging.message.id", Type: Keyword},
		{Name: "messaging.message.body.size", Type: Long},
		{Name: "error.message", Type: Text},
		{Name: "watership.queue", Type: Keyword},
		{Name: "watership.attempt", Type: Long},
		{Name: "watership.class", Type: Keyword},
		{Name: "watership.attempts.class", Type: Keyword},
		{Name: "watership.fingerprint", Type: Keyword},
		{Name: "watership.ours", Type: Boolean},
		{Name: "body.text", Type: Text},
		{Name: "body.json", Type: Flattened},
		{Name: "headers", Type: Flattened},
		{Name: "labels.*", Type: Keyword},
		{Name: "numeric_labels.*", Type: Double},
	},
	Unsearched: map[string]string{
		"body.raw": "is not indexed: search body.text or body.json",
		"amqp":     "is not indexed: search headers.NAME",
	},
	Labels: []string{"labels.tenant", "labels.order.id", "numeric_labels.total", "headers.x-trace", "headers.tenant"},
}

func TestResolve(t *testing.T) {
	for _, tt := range []struct {
		rule string
		text string
		want string
	}{
		{"everything", ``, `*: *`},
		{"no field", `foo and "bar"`, `foo and "bar"`},
		{"a full name", `event.action: poisoned`, `event.action: poisoned`},
		{"the last segment", `queue: billing`, `watership.queue: billing`},
		{"the last segments", `message.id: 7`, `messaging.message.id: 7`},
		{"in every place", `not (queue: a or attempt > 3) and fingerprint: *`, `not (watership.queue: a or watership.attempt > 3) and watership.fingerprint: *`},
		{"a flattened field", `headers: acme*`, `headers: acme*`},
		{"its short name", `json: x`, `body.json: x`},
		{"a key of it", `headers.anything: x and body.json.a.b: *`, `headers.anything: x and body.json.a.b: *`},
		{"a name of a family", `labels.new: x and numeric_labels.n >= 1.5`, `labels.new: x and numeric_labels.n >= 1.5`},
		{"a label by its key", `total > 5 and order.id: 7`, `numeric_labels.total > 5 and labels.order.id: 7`},
		{"a header by its key", `x-trace: 1`, `headers.x-trace: 1`},
		{"the earlier of two labels", `tenant: acme`, `labels.tenant: acme`},
		{"a pattern", `event.a*: x`, `event.a*: x`},
		{"a pattern of labels", `labels.*: x`, `labels.*: x`},
		{"a pattern of headers that are known", `headers.x-*: x`, `headers.x-*: x`},
		{"all keys", `headers.*: x and body.json.*: *`, `headers.*: x and body.json.*: *`},
		{"all fields", `*: x`, `*: x`},
		{"a pattern of which one field can answer", `event.*: abc`, `event.*: abc`},
		{"the beginning of a key's value", `headers.a: x y*`, `headers.a: x y*`},
		{"wildcards in text", `error.message: *x* and queue: a*b`, `error.message: *x* and watership.queue: a*b`},
		{"dates", `@timestamp: "2026-01-31" or @timestamp < now-1d/d`, `@timestamp: "2026-01-31" or @timestamp < now-1d/d`},
		{"numbers", `attempt: 3 and duration <= "1e6"`, `watership.attempt: 3 and event.duration <= "1e6"`},
		{"booleans", `ours: true`, `watership.ours: true`},
		{"ranges of keywords", `queue > b`, `watership.queue > b`},
		{"the word null, in quotes", `queue > "null"`, `watership.queue > "null"`},
		{"the outer of two in one object", `class: x`, `watership.class: x`},
		{"objects", `error: * and not messaging.message: * and labels: *`, `error: * and not messaging.message: * and labels: *`},
		{"the lowest and the highest number", `attempt <= 9223372036854775807 and attempt >= -9223372036854775808`, `watership.attempt <= 9223372036854775807 and watership.attempt >= -9223372036854775808`},
		{"what is cut off behind the point", `attempt < 9223372036854775807.9`, `watership.attempt < 9223372036854775807.9`},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			node, err := Parse(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Resolve(node, testFields)
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != tt.want {
				t.Errorf("%s\n got %s\nwant %s", tt.text, got, tt.want)
			}
		})
	}
}

func TestResolveErrors(t *testing.T) {
	for _, tt := range []struct {
		text string
		want string
	}{
		{`a and evnt.action: x`, `
no field "evnt.action"; did you mean event.action?
a and evnt.action: x
      ^`},
		{`Queu: x`, `
no field "Queu"; did you mean watership.queue?
Queu: x
^`},
		{`timestamp > now`, `
no field "timestamp"; did you mean @timestamp?
timestamp > now
^`},
		{`body: x`, `
"body" is an object, which has no value; write body.text or body.json
body: x
^`},
		{`body.order.id: 8`, `
no field "body.order.id"; did you mean body.json.order.id?
body.order.id: 8
^`},
		{`body.txt: x`, `
no field "body.txt"; did you mean body.text or body.json.txt?
body.txt: x
^`},
		{`watership.ous: x`, `
no field "watership.ous"; did you mean watership.ours, watership.queue or watership.class?
watership.ous: x
^`},
		{`größe: x and nothing.like.it: *`, `
no field "größe"; a key of that name is body.json.größe or headers.größe
größe: x and nothing.like.it: *
^`},
		{`headers.: x`, `
no field "headers."; did you mean headers?
headers.: x
^`},
		{`größe\:x or id: x`, `
"id" is short for more than one field; did you mean event.id or messaging.message.id?
größe\:x or id: x
            ^`},
		{`foo*: x`, `
no field like "foo*"
foo*: x
^`},
		{`headers.y-*: x`, `
no field like "headers.y-*"; the keys of headers cannot be searched by pattern, but all of them can: headers.*
headers.y-*: x
^`},
		{`headers.retries > 3`, `
ranges do not work on headers.*; put the header on the list numeric_labels and query numeric_labels.retries
headers.retries > 3
^`},
		{`body.json.a.b <= 3`, `
ranges do not work on body.json.*
body.json.a.b <= 3
^`},
		{`headers > 3`, `
ranges do not work on headers
headers > 3
^`},
		{`headers.a: *x`, `
on headers.* a wildcard works only at the end of a value; put the header on the list labels and query labels.a
headers.a: *x
           ^`},
		{`body.json.a: (b or c*d)`, `
on body.json.* a wildcard works only at the end of a value
body.json.a: (b or c*d)
                   ^`},
		{`attempt: 3*`, `
wildcards do not work on watership.attempt, a field of type long
attempt: 3*
         ^`},
		{`@timestamp >= yesterday`, `
"yesterday" is not a date; write 2026-01-31, "2026-01-31T10:00:00Z", now-1h, now-1d/d or milliseconds since 1970
@timestamp >= yesterday
              ^`},
		{`@timestamp >= "2026-01-31T10:00+28:00"`, `
"2026-01-31T10:00+28:00" is not a date; write 2026-01-31, "2026-01-31T10:00:00Z", now-1h, now-1d/d or milliseconds since 1970
@timestamp >= "2026-01-31T10:00+28:00"
              ^`},
		{`headers.日本: ｶ値é and actoin: x`, `
no field "actoin"; did you mean event.action?
headers.日本: ｶ値é and actoin: x
                       ^`},
		{`日本日本: x`, `
no field "日本日本"; a key of that name is body.json.日本日本 or headers.日本日本
日本日本: x
^`},
		{`attempt: third`, `
"third" is not a number, and watership.attempt has nothing else
attempt: third
         ^`},
		{`attempt > -9223372036854775809`, `
-9223372036854775809 is beyond the whole numbers of 64 bits, and watership.attempt has nothing else
attempt > -9223372036854775809
          ^`},
		{`attempt < 9223372036854775808`, `
9223372036854775808 is beyond the whole numbers of 64 bits, and watership.attempt has nothing else
attempt < 9223372036854775808
          ^`},
		{`queue > null`, `
null is no value to compare with; write "not watership.queue: *" for what has none, or "null" in quotes for that word
queue > null
        ^`},
		{`attempt <= null`, `
null is no value to compare with; write "not watership.attempt: *" for what has none, or "null" in quotes for that word
attempt <= null
           ^`},
		{`error: timeout`, `
"error" is an object, which has no value; write error.message
error: timeout
^`},
		{`messaging.message > 3`, `
"messaging.message" is an object, which has no value; write messaging.message.id or messaging.message.body.size
messaging.message > 3
^`},
		{`body.raw: *`, `
body.raw is not indexed: search body.text or body.json
body.raw: *
^`},
		{`amqp.headers.x: *`, `
amqp is not indexed: search headers.NAME
amqp.headers.x: *
^`},
		{`_index: x`, `
_index is a field of Elasticsearch and of no event; search fields of events, such as event.id
_index: x
^`},
		{`watership.nothing.like.it: x`, `
no field "watership.nothing.like.it"; watership has the fields watership.queue, watership.attempt, watership.class, watership.attempts.class, watership.fingerprint or watership.ours
watership.nothing.like.it: x
^`},
		{"\"gr\\u0007\\u202Eöße\": x", `
no field "gr\a\u202eöße"; a key of that name is body.json.gr\u0007\u202Eöße or headers.gr\u0007\u202Eöße
"gr\u0007\u202Eöße": x
^`},
		{"\"headers.a\x1b[31m\" > 3", `
ranges do not work on headers.*; put the header on the list numeric_labels and query numeric_labels.a\u001B[31m
"headers.a [31m" > 3
^`},
		{"\"numeric_labels.a\x1b\": x", `
"x" is not a number, and numeric_labels.a\u001B has nothing else
"numeric_labels.a ": x
                     ^`},
		{"\u202eabc\u202c > 3", `
no field "\u202eabc\u202c"; a key of that name is body.json.\u202Eabc\u202C or headers.\u202Eabc\u202C
 abc  > 3
^`},
		{`attempt >= 1e30`, `
1e30 is beyond the whole numbers of 64 bits, and watership.attempt has nothing else
attempt >= 1e30
           ^`},
		{`ours: yes`, `
"yes" is neither true nor false, and watership.ours has nothing else
ours: yes
      ^`},
		{`event.d*: abc`, `
"abc" is not a number, and event.duration has nothing else
event.d*: abc
          ^`},
	} {
		t.Run(tt.text, func(t *testing.T) {
			node, err := Parse(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			resolved, err := Resolve(node, testFields)
			var field *FieldError
			if !errors.As(err, &field) {
				t.Fatalf("resolved to %v, %v", resolved, err)
			}
			if got := "\n" + err.Error(); got != tt.want {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// A tree that was not parsed has no text for a caret.
func TestErrorWithoutPlace(t *testing.T) {
	_, err := Resolve(is("foo", "x"), testFields)
	if err == nil || err.Error() != `no field "foo"; a key of that name is body.json.foo or headers.foo` {
		t.Errorf("got %v", err)
	}
}

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern string
		text    string
		want    bool
	}{
		{"a", "a", true},
		{"a", "ab", false},
		{"*", "", true},
		{"a*", "a", true},
		{"a*", "ba", false},
		{"*a", "ba", true},
		{"a*a", "a", false},
		{"a*b*c", "a-b-b-c", true},
		{"a*b*c", "a-c-b", false},
		{"a*b*b*c", "a-b-c", false},
		{"*ab*b", "ab", false},
		{"*b*", "abc", true},
		{"a**c", "ac", true},
	} {
		if got := name(tt.pattern).Match(tt.text); got != tt.want {
			t.Errorf("%s of %s: %v", tt.text, tt.pattern, got)
		}
	}
}

func TestEqualIgnoresPlaces(t *testing.T) {
	nodes := []Node{
		All{},
		word("a"), phrase("a"), is("a", "a"), is("a", "b"), is("a", "*a"), exists("a"),
		compare("a", Less, "a"), compare("a", Greater, "a"),
		Not{word("a")},
		And{word("a"), word("b")},
		Or{word("a"), word("b")},
	}
	for i, a := range nodes {
		for j, b := range nodes {
			if Equal(a, b) != (i == j) {
				t.Errorf("%s and %s: %v", a, b, i != j)
			}
		}
	}
	here := Is{Value: Value{Pattern: Pattern{"a"}, At: Place{"b a", 2}}, At: Place{"b a", 2}}
	if !Equal(here, word("a")) {
		t.Error("a place makes a difference")
	}
}
