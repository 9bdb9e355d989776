package query_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/watershipmq/watership/schemas/query"
)

// fields returns the fields of a store, as schemas.Fields does.
func fields() query.Fields {
	return query.Fields{
		Known: []query.Field{
			{Name: "event.action", Type: query.Keyword},
			{Name: "watership.attempt", Type: query.Long},
			{Name: "headers", Type: query.Flattened},
		},
		Labels: []string{"headers.tenant"},
	}
}

// Names may be short where they are unambiguous.
func ExampleResolve() {
	node, err := query.Parse("action: poisoned and tenant: acme and attempt >= 3")
	if err != nil {
		fmt.Println(err)
		return
	}
	node, err = query.Resolve(node, fields())
	fmt.Println(node, err)
	// Output: event.action: poisoned and headers.tenant: acme and watership.attempt >= 3 <nil>
}

// The error shows the place of the mistake.
func ExampleParse() {
	_, err := query.Parse("action: (poisoned or")
	fmt.Println(err)
	// Output:
	// found the end of the query, expected "and", "or" or ")"
	// action: (poisoned or
	//                     ^
}

func ExampleEqual() {
	a, _ := query.Parse("a: 1 and (b: 2)")
	b, _ := query.Parse("a:1 and b:2")
	fmt.Println(query.Equal(a, b))
	// Output: true
}

func ExampleFields() {
	field, known := fields().Lookup("headers.tenant")
	fmt.Println(field.Type, field.Parent, known)
	// Output: flattened headers true
}

// A numeric field cannot contain a text.
func ExampleIs() {
	node, _ := query.Parse("watership.*: soon")
	is := node.(query.Is)
	fmt.Println(is.Fits(query.Field{Name: "watership.queue", Type: query.Keyword}),
		is.Fits(query.Field{Name: "watership.attempt", Type: query.Long}))
	// Output: true false
}

func ExampleRange() {
	node, _ := query.Parse("attempt >= 3")
	compared := node.(query.Range)
	fmt.Println(compared.Op, compared.Fits(query.Field{Name: "attempt", Type: query.Long}))
	// Output: >= true
}

func ExamplePattern() {
	node, _ := query.Parse("routing_key: order.*")
	pattern := node.(query.Is).Value.Pattern
	fmt.Println(pattern.Match("order.created"), pattern.Match("invoice.made"))
	// Output: true false
}

func ExampleOp() {
	fmt.Println(query.Less.End() == query.Greater.End())
	// Output: false
}

// The comparison decides the rounding of a date: after a day is after its end.
func ExampleInstant() {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	day, err := query.Instant("now-1d/d", now, query.Greater.End())
	fmt.Println(day, err)
	// Output: 2026-05-03 23:59:59.999 +0000 UTC <nil>
}

// A caret has the same column as the end of the text above it.
func ExampleWidth() {
	const before = "headers.日本: "
	fmt.Println(before + "x")
	fmt.Println(strings.Repeat(" ", query.Width(before)) + "^")
	fmt.Println(query.Width(before))
	// Output:
	// headers.日本: x
	//               ^
	// 14
}
