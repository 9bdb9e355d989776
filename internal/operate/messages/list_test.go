package messages

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation/eventjson"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

// listValues lists all messages, and returns their values of fields by their message ids.
func listValues(t *testing.T, events []schemas.Event, fields ...string) map[string]map[string]any {
	t.Helper()
	sys, _ := systemtest.Embedded(t)
	systemtest.Record(t, sys, events...)
	store, err := sys.Store(t.Context())
	must(t, err)
	found, err := history.ListMessages(t.Context(), store, history.MessageListPage{Limit: 50}, nil)
	must(t, err)
	listed := make([]Listed, len(found.Messages))
	must(t, addValues(t.Context(), store, operations{System: sys}.documentOf(t.Context()), listed, found.Messages, fields))
	values := map[string]map[string]any{}
	for i, m := range found.Messages {
		values[m.First.Envelope.Properties.MessageID] = listed[i].Values
	}
	return values
}

// Each message has the values of its headers, also those after the bodies that a page reads at most.
func TestHeadersBesideLargeBodies(t *testing.T) {
	var events []schemas.Event
	for n := range 4 {
		e := published(fmt.Sprintf(`{"id":%d,"note":%q}`, n, strings.Repeat("x", maxPageBytes/2)))
		e.Envelope.Properties.MessageID = fmt.Sprint("m-", n)
		e.Envelope.Headers = amqp.Table{"tenant": "acme"}
		e.BodyIn = schemas.BodyHere
		events = append(events, e)
	}
	bodies := 0
	for id, values := range listValues(t, events, "headers.tenant", "body.json.id") {
		if values["headers.tenant"] != "acme" {
			t.Errorf("%s has no header: %v", id, values)
		}
		if values["body.json.id"] != nil {
			bodies++
		}
	}
	if bodies != 2 {
		t.Errorf("the bodies of %d messages were read", bodies)
	}
}

// Lists are read without stack traces, but a column can have that of the latest failure.
func TestStackTraceOfLatestFailure(t *testing.T) {
	first := published(`{}`)
	failed := first
	failed.Action, failed.Queue, failed.Attempt, failed.Failure = schemas.RetryScheduled, "orders", 1, schemas.Failure{Message: "no stock", Stack: "main.go:1"}
	again := failed
	again.Action, again.Attempt, again.Failure.Stack = schemas.Poisoned, 2, "main.go:2"
	if got := listValues(t, []schemas.Event{first, failed, again}, "error.stack_trace", "error.message")["m"]; got["error.stack_trace"] != "main.go:2" || got["error.message"] != "no stock" {
		t.Errorf("got %v", got)
	}
}

// Two messages of a page can share an event, as a message and the one whose replay it is. Both have what is read of it.
func TestValuesOfASharedEvent(t *testing.T) {
	failed := published(`{}`)
	failed.Action, failed.Queue, failed.Attempt, failed.Failure = schemas.Poisoned, "orders", 1, schemas.Failure{Message: "no stock", Stack: "main.go:1"}
	failed.Envelope.Headers = amqp.Table{"tenant": "acme"}
	sys, _ := systemtest.Embedded(t)
	systemtest.Record(t, sys, failed)
	store, err := sys.Store(t.Context())
	must(t, err)
	found, err := history.ListMessages(t.Context(), store, history.MessageListPage{Limit: 50}, nil)
	must(t, err)
	other := found.Messages[0]
	other.Events = slices.Clone(other.Events)
	listed := make([]Listed, 2)
	must(t, addValues(t.Context(), store, operations{System: sys}.documentOf(t.Context()), listed, append(found.Messages, other), []string{"headers.tenant", "error.stack_trace"}))
	for i, m := range listed {
		if m.Values["headers.tenant"] != "acme" || m.Values["error.stack_trace"] != "main.go:1" {
			t.Errorf("message %d: got %v", i, m.Values)
		}
	}
}

// Of a message with many events, only those documents are made that it takes to find the fields.
func TestDocumentsUntilAllFieldsAreFound(t *testing.T) {
	var m history.ListedMessage
	for n := range 100 {
		e := published(`{}`)
		e.Attempt = n + 1
		m.Events = append(m.Events, e)
	}
	m.Events[97].Queue = "orders"
	sys, _ := systemtest.Embedded(t)
	store, err := sys.Store(t.Context())
	must(t, err)
	for _, test := range []struct {
		fields    []string
		documents int
	}{
		{[]string{"watership.attempt"}, 1},
		{[]string{"watership.attempt", "watership.queue"}, 3},
		{[]string{"watership.attempt", "error.type"}, 101},
	} {
		made := 0
		documentOf := func(e schemas.Event) eventjson.Document {
			made++
			return operations{System: sys}.documentOf(t.Context())(e)
		}
		listed := make([]Listed, 1)
		must(t, addValues(t.Context(), store, documentOf, listed, []history.ListedMessage{m}, test.fields))
		if got := fmt.Sprint(listed[0].Values["watership.attempt"]); got != "100" || made != test.documents {
			t.Errorf("%q: attempt %s, %d documents; want 100, %d", test.fields, got, made, test.documents)
		}
	}
}
