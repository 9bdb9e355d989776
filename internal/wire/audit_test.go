package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
)

// auditState is the state of an event about a replay that was refused.
func auditState() schemas.State {
	none := schemas.Envelope{}
	s := schemas.State{Version: header.Version, EventID: "audit:1", Fingerprint: none.Fingerprint(), Time: time.UnixMilli(1_700_000_000_000).UTC()}
	s.Audit.User, s.Audit.Method, s.Audit.Address = "ada@example.com", "oidc", "203.0.113.7"
	s.Audit.Operation, s.Audit.Object, s.Audit.Reason, s.Audit.Refused = "replay", "event.action: poisoned", "OPS-12: fixed", true
	s.Failure.Message = "ada@example.com has the role viewer, and this needs operator"
	return s
}

func deliver(p amqp.Publishing, exchange, key string) amqp.Delivery {
	return amqp.Delivery{Exchange: exchange, RoutingKey: key, Headers: p.Headers, Body: p.Body, DeliveryMode: p.DeliveryMode}
}

func TestAuditedEventTravels(t *testing.T) {
	var topology schemas.Topology
	dec := Decoder{Source: "test", Topology: topology}
	p := DefaultFrameMax.Wrap(schemas.Envelope{}, auditState())
	got, err := dec.Lifecycle(deliver(p, topology.Events(), string(schemas.Audited)), time.Now(), 7)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(auditState(), got.State); diff != "" {
		t.Errorf("(-sent +received):\n%s", diff)
	}
	document := schemas.DocumentFormat{}.Document(got)
	for _, want := range []string{
		`"action":"audited","outcome":"failure","reason":"OPS-12: fixed"`, `"user":{"name":"ada@example.com"}`, `"client":{"address":"203.0.113.7"}`,
		`"audit":{"operation":"replay","object":"event.action: poisoned","method":"oidc"}`,
	} {
		if !strings.Contains(string(document.Source), want) {
			t.Errorf("%s has no %s", document.Source, want)
		}
	}
	if document.Stream != schemas.Failures {
		t.Errorf("in stream %s", document.Stream)
	}
	parsed, err := schemas.ParseDocument(document.Source)
	if diff := cmp.Diff(got.State, parsed.State); diff != "" || err != nil {
		t.Errorf("%v (-stored +read):\n%s", err, diff)
	}
	quarantined, err := schemas.ParseDocument(schemas.DocumentFormat{}.Append(nil, got.Quarantine("refused")))
	if again, ok := quarantined.Refused(); err != nil || !ok || again.Action != schemas.Audited || again.Audit.User != "ada@example.com" {
		t.Errorf("quarantined: %+v, %v", again, err)
	}
}

// Whoever may publish an ordinary message, or an event of another kind, writes no audit
// event.
func TestAuditedEventsCannotBeForged(t *testing.T) {
	var topology schemas.Topology
	keys, err := schemas.ParseStateKeys([]byte(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	p := DefaultFrameMax.Wrap(schemas.Envelope{}, auditState())
	dec := Decoder{Source: "test", Topology: topology}
	for _, exchange := range []string{"shop", "", topology.Direct(), topology.Retry(), topology.Report()} {
		if e, err := dec.Lifecycle(deliver(p, exchange, string(schemas.Audited)), time.Now(), 1); err == nil {
			t.Errorf("by exchange %q: %+v", exchange, e)
		}
	}
	tapped := dec.Tapped(deliver(p, "shop", string(schemas.Audited)), time.Now(), 1)
	if tapped.Action != schemas.Published || tapped.Audit != (schemas.State{}.Audit) {
		t.Errorf("a tapped message is %s with %+v", tapped.Action, tapped.Audit)
	}
	handled, err := dec.Lifecycle(deliver(p, topology.Events(), string(schemas.Handled)), time.Now(), 1)
	if err != nil || handled.Audit != (schemas.State{}.Audit) {
		t.Errorf("a handled event has %+v, %v", handled.Audit, err)
	}
	document := schemas.DocumentFormat{}.Document(handled)
	if strings.Contains(string(document.Source), "ada@example.com\"}") {
		t.Errorf("%s", document.Source)
	}
	dec.Keys = keys
	if e, err := dec.Lifecycle(deliver(p, topology.Events(), string(schemas.Audited)), time.Now(), 1); err == nil {
		t.Errorf("without a signature: %+v", e)
	}
	verifier := Verifier{Topology: topology, Keys: keys}
	signed := verifier.Sign(topology.Events(), string(schemas.Handled), p)
	if e, err := dec.Lifecycle(deliver(signed, topology.Events(), string(schemas.Audited)), time.Now(), 1); err == nil {
		t.Errorf("with the signature of a handled event: %+v", e)
	}
	signed = verifier.Sign(topology.Events(), string(schemas.Audited), p)
	if _, err := dec.Lifecycle(deliver(signed, topology.Events(), string(schemas.Audited)), time.Now(), 1); err != nil {
		t.Error(err)
	}
	signed.Headers[headerAudit].(amqp.Table)["user"] = "bob"
	if e, err := dec.Lifecycle(deliver(signed, topology.Events(), string(schemas.Audited)), time.Now(), 1); err == nil {
		t.Errorf("changed after it was signed: %+v", e.Audit)
	}
}
