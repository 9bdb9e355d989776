package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
)

// comparedQueries are compared before the random ones.
var comparedQueries = []string{
	"", "*", "not *: *", "not (not headers.tenant: *)", "not headers.tenant: acme", "not error.message: *",
	"cannot connect", `"cannot connect"`, "acme", "7", "true", "acm*", "*cme", "conn* out", "a*c", `a\*c`, "nobody",
	"3.14", "14", "don't", "example", "example.com", "EXAMPLE.*", `a\:b`, "東京", `"東京"`, "京", "東*", "*ワ*", "한국*", "😀", `"👍🏽"`, "ไทย", "ภาษา", "naïve", "istanbul", "order-9 😀",
	"body.text: 1,000.5", "body.text: 1*5", `body.text: "a.b.c 東"`, "error.message > 京", "error.message >= don't", "body.text: *'*", `body.text: "לא"`, "body.text: _x*",
	"um brella", `"um brella"`, "um*", "2026-01-05", "null",
	"event.action: poisoned", "event.action: POISONED", "event.action: (poisoned or handled)", "action: *ed", "action: p*d",
	"watership.queue: orders*", "watership.queue: *s", "watership.queue: *", "watership.queue: orders", "watership.queue: ord?rs",
	"error.message: cannot connect", `error.message: "cannot connect"`, "error.message: CONN*", "error.message: *dd", "error.message: o*t", "error.message: * x",
	"error.message > d", "body.text: order violin", `body.text: "timed out"`, "body.text: *", "body.text: **", "body.text: order-9", "body.text: order-9*", `body.text: "!"`,
	"headers: acme", "headers.*: acme", "headers: *cme", "headers: a*2", "headers.tenant: acme", "headers.tenant: acm*", `headers.tenant: "a*c"`, `headers.tenant: a\**`,
	`headers.tenant: C\:\\dir`, `headers.tenant: "C:\\dir"`, "headers.tenant: null", "headers.deep.er: um brella", "headers.deep: *", "headers.deep.a.b: order",
	"headers.total: 10", "headers.total: 1e+06", "headers.list: true", "headers.list: twice", "headers.list: 7", "headers.nobody: *", "headers: *",
	"body.json.order: 7", `body.json.price: "2.50"`, "body.json.price: 2.5", "body.json.price: 1e3", "body.json.lines.sku: order", "body.json: violin", "body.json.none: *",
	"labels.tenant: a*", "labels.tenant: *2", "tenant: acme", "total > 9", "total: 9.5", "total: 1e6", "total <= -1", "numeric_labels.total: *",
	"watership.attempts.class: ordering", "watership.attempts.class: o*g", "watership.attempts.class: *", "watership.attempts.time > 2026-02-01",
	"watership.stream.id: order-7", "stream.id: order*", "stream.id: *-8", "stream.id: *", "not stream.id: *", "watership.stream: *", "stream.id: ACME",
	"stream.version: 0", "stream.version >= 1", "stream.version: *", "stream.id: * and not stream.version: *", "watership.stream.version: 9007199254740992",
	"event.duration: 10", "event.duration >= 9.5", "event.duration: 9.5", "event.duration < 1e1", "not event.duration: *", "watership.attempt: 1",
	"@timestamp: 2026-01-31", "@timestamp: 2026-01", "@timestamp: 2026", "@timestamp > 2026-01-31", "@timestamp >= 2026-01-31", "@timestamp < 2026-01-31", "@timestamp <= 2026-01-31",
	"@timestamp: 2026-01||/M", "@timestamp < 2026-02-01||-1M/d", "@timestamp <= 1769817600000", "@timestamp > now-1000y", "@timestamp > now/w",
	"labels.*: acme", "labels.ten*: a*", "numeric_labels.*: 9.5", "numeric_labels.* > 9", "labels.*: *", "not numeric_labels.*: *", "*labels.t*: acme",
	"*: acme", "*: 7", "event.*: handled", "*labels.*: *", "*.class: ordering", "watership.*: default", "m*: *", "headers.x*: *",
	"error: *", "not error: *", "labels: *", "numeric_labels: *", "body: *", "event: *", "watership: *", "watership.attempts: *", "messaging.message: *", "watership.replay: *", "body.*: *",
	"event.duration: 9223372036854775808", "event.duration: 1e30", "event.duration: 9223372036854775807.5",
	"event.duration <= 9223372036854775807", "event.duration >= -9223372036854775808", "event.duration < 9223372036854775807.5",
}

// ComparisonLabels are the labels of the documents of RunComparison.
func ComparisonLabels() []string { return corpus{}.format().LabelFields() }

// RunComparison creates the same documents in two stores and compares the results of the
// same queries. Both must be empty, ready for documents, and have ComparisonLabels.
func RunComparison(t *testing.T, one, other Store) {
	const seed, documents, generated = 7, 120, 200
	stores := []subject{{one, t.Name()}, {other, t.Name()}}
	for _, s := range stores {
		s.create(t, newCorpus(seed).documents(s.source, documents), allCreated(documents)...)
		s.refresh(t)
	}
	c, some := newCorpus(seed+1), 0
	list := comparedQueries
	for range generated {
		list = append(list, c.query(c.IntN(4)))
	}
	for _, text := range list {
		node, err := parse(text)
		if err != nil {
			if !errors.As(err, new(*kql.FieldError)) {
				t.Fatalf("%s: %v", text, err)
			}
			continue
		}
		answer := stores[0].result(t, node)
		if got := stores[1].result(t, node); got != answer {
			t.Errorf("%s\n %T: %s\n %T: %s", text, other, got, one, answer)
		}
		if found := strings.Count(answer, " "); found > 0 && found < documents {
			some++
		}
	}
	t.Logf("of %d queries %d find some of the %d documents and not all", len(list), some, documents)
	if some < len(list)/2 {
		t.Errorf("only %d of %d queries find some of the documents and not all", some, len(list))
	}
}

func allCreated(n int) []eventstore.Status {
	list := make([]eventstore.Status, n)
	for i := range list {
		list[i] = eventstore.Created
	}
	return list
}

// parse returns the resolved query for a text, parsed again from its printed form.
func parse(text string) (kql.Node, error) {
	fields, err := corpus{}.fields()
	if err != nil {
		return nil, err
	}
	node, err := kql.Parse(text)
	if err != nil {
		return nil, err
	}
	if node, err = kql.Resolve(node, fields); err != nil {
		return nil, err
	}
	return kql.Parse(node.String())
}

// result prints the sequences of the events that a query finds, and their count, or the
// error.
func (s subject) result(t *testing.T, node kql.Node) string {
	t.Helper()
	sel := eventstore.Selection{Query: node, Order: eventstore.BySequence, WithoutBody: true}
	n, err := s.Count(t.Context(), sel)
	if err != nil {
		return "error: " + err.Error()
	}
	var found strings.Builder
	fmt.Fprintf(&found, "%d:", n)
	for event, err := range s.Events(t.Context(), sel) {
		if err != nil {
			return "error: " + err.Error()
		}
		fmt.Fprintf(&found, " %d", event.Sequence)
	}
	return found.String()
}
