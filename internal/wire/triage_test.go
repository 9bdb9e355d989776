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

// triageState is the state of an event about a group that is muted.
func triageState() schemas.State {
	none := schemas.Envelope{}
	s := schemas.State{Version: header.Version, EventID: "triage:1", Fingerprint: none.Fingerprint(), Time: time.UnixMilli(1_700_000_000_000).UTC(), Queue: "orders"}
	s.Failure = schemas.Failure{Type: "http.Status", Class: "default", Message: "no stock of item # at 10:30"} // 10:30 would be folded
	s.Audit.User, s.Audit.Reason = "ada", "OPS-12: the supplier is closed"
	s.Triage.Group, s.Triage.Decision, s.Triage.Assignee = "k3f7q2xa", "muted", "bob"
	s.Triage.Until, s.Triage.Count, s.Triage.UpTo = time.UnixMilli(1_700_000_360_000).UTC(), 100, 1_700_000_000_000_000
	return s
}

func TestTriagedEventTravels(t *testing.T) {
	var topology schemas.Topology
	dec := Decoder{Source: "test", Topology: topology}
	p := DefaultFrameMax.Wrap(schemas.Envelope{}, triageState())
	got, err := dec.Lifecycle(deliver(p, topology.Events(), string(schemas.Triaged)), time.Now(), 7)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(triageState(), got.State); diff != "" {
		t.Errorf("(-sent +received):\n%s", diff)
	}
	document := schemas.DocumentFormat{}.Document(got)
	for _, want := range []string{
		`"action":"triaged","outcome":"unknown","reason":"OPS-12: the supplier is closed"`, `"user":{"name":"ada"}`,
		`"queue":"orders","class":"default","error_group":"no stock of item # at 10:30"`, `"error":{"type":"http.Status",`,
		`"triage":{"group":"k3f7q2xa","decision":"muted","assignee":"bob","until":"2023-11-14T22:19:20.000000Z","count":100,"up_to":1700000000000000}`,
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
	if again, ok := quarantined.Refused(); err != nil || !ok || again.Triage != got.Triage || again.ErrorGroup() != got.ErrorGroup() {
		t.Errorf("quarantined: %+v, %v", again, err)
	}
}

// A publisher of ordinary messages, or of events of another kind, makes no decisions.
func TestTriagedEventsCannotBeForged(t *testing.T) {
	var topology schemas.Topology
	keys, err := schemas.ParseStateKeys([]byte(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	p := DefaultFrameMax.Wrap(schemas.Envelope{}, triageState())
	dec := Decoder{Source: "test", Topology: topology}
	for _, exchange := range []string{"shop", "", topology.Direct(), topology.Retry(), topology.Report()} {
		if e, err := dec.Lifecycle(deliver(p, exchange, string(schemas.Triaged)), time.Now(), 1); err == nil {
			t.Errorf("by exchange %q: %+v", exchange, e)
		}
	}
	tapped := dec.Tapped(deliver(p, "shop", string(schemas.Triaged)), time.Now(), 1)
	if tapped.Action != schemas.Published || tapped.Triage != (schemas.State{}.Triage) || tapped.Queue != "" {
		t.Errorf("a tapped message is %s with %+v", tapped.Action, tapped.Triage)
	}
	poisoned, err := dec.Lifecycle(deliver(p, topology.Events(), string(schemas.Poisoned)), time.Now(), 1)
	if err != nil || poisoned.Triage != (schemas.State{}.Triage) {
		t.Errorf("a poisoned event has %+v, %v", poisoned.Triage, err)
	}
	dec.Keys = keys
	if e, err := dec.Lifecycle(deliver(p, topology.Events(), string(schemas.Triaged)), time.Now(), 1); err == nil {
		t.Errorf("without a signature: %+v", e)
	}
	verifier := Verifier{Topology: topology, Keys: keys}
	signed := verifier.Sign(topology.Events(), string(schemas.Discarded), p)
	if e, err := dec.Lifecycle(deliver(signed, topology.Events(), string(schemas.Triaged)), time.Now(), 1); err == nil {
		t.Errorf("with the signature of a discarded event: %+v", e)
	}
	signed = verifier.Sign(topology.Events(), string(schemas.Triaged), p)
	if _, err := dec.Lifecycle(deliver(signed, topology.Events(), string(schemas.Triaged)), time.Now(), 1); err != nil {
		t.Error(err)
	}
	signed.Headers[headerTriage].(amqp.Table)["assignee"] = "eve"
	if e, err := dec.Lifecycle(deliver(signed, topology.Events(), string(schemas.Triaged)), time.Now(), 1); err == nil {
		t.Errorf("changed after it was signed: %+v", e.Triage)
	}
}
