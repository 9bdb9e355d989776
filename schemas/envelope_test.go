package schemas_test

import (
	"strings"
	"testing"
	"testing/quick"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/internal/wire/wiretest"
	"github.com/watershipmq/watership/schemas"
)

// A message that was received and is published again is the same, in every property.
func TestEnvelopesKeepEveryProperty(t *testing.T) {
	same := func(texts [9]string, mode, priority uint8, exchange, key string, body []byte, seconds uint32) bool {
		p := schemas.Properties{
			ContentType: texts[0], ContentEncoding: texts[1], CorrelationID: texts[2], ReplyTo: texts[3], Expiration: texts[4],
			MessageID: texts[5], Type: texts[6], UserID: texts[7], AppID: texts[8], DeliveryMode: mode, Priority: priority, Timestamp: time.Unix(int64(seconds), 0),
		}
		e := schemas.Envelope{Exchange: exchange, RoutingKey: key, Properties: p, Headers: wiretest.EveryType(), Body: body}
		again := schemas.FromDelivery(wiretest.Delivery(e))
		return cmp.Equal(e, again, wiretest.Bitwise()) && again.Fingerprint() == e.Fingerprint()
	}
	if err := quick.Check(same, nil); err != nil {
		t.Error(err)
	}
}

// The fingerprint depends on every part of the message that does not change on its way,
// and on no other.
func TestFingerprintDependsOn(t *testing.T) {
	original := wiretest.EveryEnvelope().Fingerprint()
	for name, change := range map[string]struct {
		change func(*schemas.Envelope)
		same   bool
	}{
		"exchange":           {func(e *schemas.Envelope) { e.Exchange = "other" }, false},
		"routing key":        {func(e *schemas.Envelope) { e.RoutingKey = "other" }, false},
		"content type":       {func(e *schemas.Envelope) { e.Properties.ContentType = "other" }, false},
		"content encoding":   {func(e *schemas.Envelope) { e.Properties.ContentEncoding = "other" }, false},
		"correlation id":     {func(e *schemas.Envelope) { e.Properties.CorrelationID = "other" }, false},
		"reply to":           {func(e *schemas.Envelope) { e.Properties.ReplyTo = "other" }, false},
		"message id":         {func(e *schemas.Envelope) { e.Properties.MessageID = "other" }, false},
		"timestamp":          {func(e *schemas.Envelope) { e.Properties.Timestamp = time.Unix(1, 0) }, false},
		"type":               {func(e *schemas.Envelope) { e.Properties.Type = "other" }, false},
		"app id":             {func(e *schemas.Envelope) { e.Properties.AppID = "other" }, false},
		"body":               {func(e *schemas.Envelope) { e.Body = append(e.Body, 0) }, false},
		"a header":           {func(e *schemas.Envelope) { e.Headers["tenant"] = "other" }, false},
		"another header":     {func(e *schemas.Envelope) { e.Headers["another"] = nil }, false},
		"type of a header":   {func(e *schemas.Envelope) { e.Headers["int32"] = int64(-32) }, false},
		"a nested header":    {func(e *schemas.Envelope) { e.Headers["table"] = amqp.Table{"a.b": amqp.Table{"c": int64(2)}} }, false},
		"fewer headers":      {func(e *schemas.Envelope) { delete(e.Headers, "none") }, false},
		"expiration":         {func(e *schemas.Envelope) { e.Properties.Expiration = "1" }, true},
		"user id":            {func(e *schemas.Envelope) { e.Properties.UserID = "other" }, true},
		"priority":           {func(e *schemas.Envelope) { e.Properties.Priority = 1 }, true},
		"delivery mode":      {func(e *schemas.Envelope) { e.Properties.DeliveryMode = 1 }, true},
		"CC":                 {func(e *schemas.Envelope) { e.Headers["CC"] = []any{} }, true},
		"BCC":                {func(e *schemas.Envelope) { e.Headers["BCC"] = []any{"x"} }, true},
		"x-death":            {func(e *schemas.Envelope) { e.Headers["x-death"] = []any{} }, true},
		"x-anything":         {func(e *schemas.Envelope) { e.Headers["x-anything"] = 1 }, true},
		"watership-anything": {func(e *schemas.Envelope) { e.Headers["watership-anything"] = "x" }, true},
	} {
		e := wiretest.EveryEnvelope()
		change.change(&e)
		if (e.Fingerprint() == original) != change.same {
			t.Errorf("%s: the fingerprint is the same: %v", name, !change.same)
		}
	}
}

// A clone shares nothing that can be changed with its original.
func TestClonesShareNothing(t *testing.T) {
	e := wiretest.EveryEnvelope()
	want := e.Fingerprint()
	clone := e.Clone()
	clone.Body[0]++
	clone.Headers["bytes"].([]byte)[0]++
	clone.Headers["array"].([]any)[3].(amqp.Table)["deep"] = "changed"
	clone.Headers["table"].(amqp.Table)["a.b"].(amqp.Table)["c"] = "changed"
	clone.Headers["CC"].([]any)[0] = "changed"
	delete(clone.Headers, "tenant")
	if got := e.Fingerprint(); got != want || e.Headers["CC"].([]any)[0] != "audit" {
		t.Errorf("the original changed: %+v", e)
	}
	if none := (schemas.Envelope{}).Clone(); none.Headers != nil || none.Body != nil {
		t.Errorf("of nothing there is %+v", none)
	}
}

// A publisher's headers are those that neither a broker nor Watership writes.
func TestPublisherHeadersAreTheRest(t *testing.T) {
	e := wiretest.EveryEnvelope()
	arrived := wiretest.Arriving(wire.DefaultFrameMax.WrapForQueue(e, schemas.State{Fingerprint: e.Fingerprint(), Queue: "orders", Attempt: 1}, ""), schemas.Topology{}.Direct(), "orders")
	for _, name := range []string{"x-death", "x-delivery-count", "x-acquired-count", "x-first-death-queue", "x-last-death-reason"} {
		if arrived.Headers[name] = "x"; !header.SetByBroker(name) {
			t.Errorf("%s is a publisher's", name)
		}
	}
	delete(e.Headers, "CC")
	if diff := cmp.Diff(e.Headers, arrived.PublisherHeaders(), wiretest.Bitwise()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An error group is short, UTF-8 and on one line, and grouping it again changes nothing.
func TestErrorGroupsAreStable(t *testing.T) {
	holds := func(message, name string) bool {
		group := schemas.Failure{Message: message}.ErrorGroup(name)
		return len(group) <= 512 && utf8.ValidString(group) && !strings.Contains(group, "\n") &&
			(schemas.Failure{Message: group}.ErrorGroup(name) == group)
	}
	for _, message := range []string{
		"", strings.Repeat("order 17 ", 100), strings.Repeat("日本1", 200), "\xff1\xff", "status 503 of 17", "10.0.0.1:80", "a1-b2_c3 d", "1\n2",
	} {
		if !holds(message, "") || !holds(message, "order 17") {
			t.Errorf("%q becomes %q", message, schemas.Failure{Message: message}.ErrorGroup())
		}
	}
	if err := quick.Check(holds, &quick.Config{MaxCount: 2000}); err != nil {
		t.Error(err)
	}
}

// The names of labels are those that documents have.
func TestLabelFieldsAreInDocuments(t *testing.T) {
	format := schemas.DocumentFormat{Labels: []string{"tenant", "a.b", "tenant"}, NumericLabels: []string{"int32", "uint8"}}
	want := []string{"labels.tenant", "labels.a_b", "labels.tenant", "numeric_labels.int32", "numeric_labels.uint8"}
	if diff := cmp.Diff(want, format.LabelFields()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	event := wiretest.FailedEvent(nil)
	event.Envelope.Headers["a.b"] = "dotted"
	source := string(format.Append(nil, event))
	if !strings.Contains(source, `"labels":{"tenant":"acme","a_b":"dotted"},"numeric_labels":{"int32":-32,"uint8":200}`) {
		t.Errorf("the document has other labels: %s", source)
	}
}

// Every action has a stream and an outcome of ECS; those about no message are no traffic.
func TestActions(t *testing.T) {
	outcomes := map[schemas.Action]string{
		schemas.Published: "unknown", schemas.Handled: "success", schemas.RetryScheduled: "failure", schemas.Poisoned: "failure", schemas.Replayed: "success",
		schemas.Discarded: "unknown", schemas.Quarantined: "failure", schemas.Dropped: "unknown", schemas.Paused: "unknown", schemas.Resumed: "unknown",
	}
	for action, want := range outcomes {
		if got := action.Outcome(); got != want {
			t.Errorf("%s has the outcome %s, want %s", action, got, want)
		}
		if isTraffic := action == schemas.Published || action == schemas.Handled; (action.Stream() == schemas.Traffic) != isTraffic || action.OfNoMessage() && isTraffic {
			t.Errorf("%s is in %s", action, action.Stream())
		}
	}
}
