package kql_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

// fields returns the fields of a store, as eventstore.Fields does.
func fields() kql.Fields {
	return kql.Fields{
		Known: []kql.Field{
			{Name: "event.action", Type: kql.Keyword},
			{Name: "watership.attempt", Type: kql.Long},
			{Name: "headers", Type: kql.Flattened},
		},
		Labels: []string{"headers.tenant"},
	}
}

// Names may be short where they are unambiguous.
func ExampleResolve() {
	node, err := kql.Parse("action: poisoned and tenant: acme and attempt >= 3")
	if err != nil {
		fmt.Println(err)
		return
	}
	node, err = kql.Resolve(node, fields())
	fmt.Println(node, err)
	// Output: event.action: poisoned and headers.tenant: acme and watership.attempt >= 3 <nil>
}

// The error shows the place of the mistake.
func ExampleParse() {
	_, err := kql.Parse("action: (poisoned or")
	fmt.Println(err)
	// Output:
	// found the end of the query, expected "and", "or" or ")"
	// action: (poisoned or
	//                     ^
}

func ExampleDateTime() {
	at, err := kql.Instant(kql.DateTime("2026-05-04 08:00"), time.Now().UTC(), kql.First)
	fmt.Println(at, err)
	// Output: 2026-05-04 08:00:00 +0000 UTC <nil>
}

func ExampleEqual() {
	a, _ := kql.Parse("a: 1 and (b: 2)")
	b, _ := kql.Parse("a:1 and b:2")
	fmt.Println(kql.Equal(a, b))
	// Output: true
}

func ExampleFields() {
	field, known := fields().Lookup("headers.tenant")
	fmt.Println(field.Type, field.Parent, known)
	// Output: flattened headers true
}

// A numeric field cannot contain a text.
func ExampleIs() {
	node, _ := kql.Parse("watership.*: soon")
	is := node.(kql.Is)
	fmt.Println(is.Fits(kql.Field{Name: "watership.queue", Type: kql.Keyword}),
		is.Fits(kql.Field{Name: "watership.attempt", Type: kql.Long}))
	// Output: true false
}

func ExampleFieldIs() {
	fmt.Println(kql.FieldIs("watership.queue", "orders"))
	// Output: watership.queue: "orders"
}

func ExampleRange() {
	node, _ := kql.Parse("attempt >= 3")
	compared := node.(kql.Range)
	fmt.Println(compared.Op, compared.Fits(kql.Field{Name: "attempt", Type: kql.Long}))
	// Output: >= true
}

func ExamplePattern() {
	node, _ := kql.Parse("routing_key: order.*")
	pattern := node.(kql.Is).Value.Pattern
	fmt.Println(pattern.Match("order.created"), pattern.Match("invoice.made"))
	// Output: true false
}

func ExampleOp() {
	fmt.Println(kql.Less.End() == kql.Greater.End())
	// Output: false
}

// The comparison decides the rounding of a date: after a day is after its end.
func ExampleInstant() {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	day, err := kql.Instant("now-1d/d", now, kql.Greater.End())
	fmt.Println(day, err)
	// Output: 2026-05-03 23:59:59.999 +0000 UTC <nil>
}

// A caret has the same column as the end of the text above it.
func ExampleWidth() {
	const before = "headers.日本: "
	fmt.Println(before + "x")
	fmt.Println(strings.Repeat(" ", kql.Width(before)) + "^")
	fmt.Println(kql.Width(before))
	// Output:
	// headers.日本: x
	//               ^
	// 14
}

// The query selects the same events tomorrow.
func ExampleAbsoluteTimes() {
	fields, err := eventstore.Fields()
	if err != nil {
		fmt.Println(err)
		return
	}
	node, err := kql.Parse("@timestamp >= now-1h")
	if err == nil {
		node, err = kql.Resolve(node, fields)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(kql.AbsoluteTimes(node, fields, time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)))
	// Output: @timestamp >= "2026-05-04T03:02:01.000Z||-1h"
}
