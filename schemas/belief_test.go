package schemas

import (
	"errors"
	"maps"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestBelieve(t *testing.T) {
	e := everyEnvelope()
	fp := e.Fingerprint()
	state := State{Fingerprint: fp, Message: "01J", Queue: "orders", Attempt: 2, Replay: "job", ReplayOf: "01A"}
	own := func() Envelope { return arriving(WrapForQueue(e, state, "guest"), "", "orders") }
	marked := arriving(WrapForExchange(e, state, "guest"), e.Exchange, e.RoutingKey)
	with := func(e Envelope, headers amqp.Table) Envelope {
		e.Headers = maps.Clone(e.Headers)
		maps.Copy(e.Headers, headers)
		return e
	}
	other := func(e Envelope) Envelope { e.Body = []byte("another"); return e }
	for name, test := range map[string]struct {
		arrived  Envelope
		queue    string
		attempt  int
		replay   string
		mismatch bool
	}{
		"a new message": {e, "orders", 0, "", false},
		"its own state": {own(), "orders", 2, "job", false},
		"headers copied to another message, same queue": {other(own()), "orders", 0, "", true},
		"headers copied to another queue":               {own(), "invoices", 0, "", false},
		"headers copied to another message and queue":   {other(own()), "invoices", 0, "", false},
		"at the tap no queue is right":                  {own(), "", 0, "", false},
		"a state that names no queue":                   {with(e, amqp.Table{headerVersion: int64(1), headerQueue: "", headerFingerprint: fp, headerAttempt: int64(9)}), "", 0, "", false},
		"a replay mark at the tap":                      {marked, "", 0, "job", false},
		"a replay mark at a queue":                      {marked, "orders", 0, "job", false},
		"a replay mark on another message":              {other(marked), "", 0, "", false},
		"a replay mark that would make no id":           {with(marked, amqp.Table{headerReplay: strings.Repeat("j", 129)}), "", 0, "", false},
		"a replay mark that is no text":                 {with(marked, amqp.Table{headerReplay: "\xff"}), "", 0, "", false},
		"a fingerprint of another type":                 {with(marked, amqp.Table{headerFingerprint: int64(1)}), "", 0, "", false},
		"a claim to be wrapped":                         {with(e, amqp.Table{headerWrapped: int64(1)}), "orders", 0, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			belief, err := Believe(test.arrived, test.queue)
			if err != nil {
				t.Fatal(err)
			}
			if belief.State.Attempt != test.attempt || belief.State.Replay != test.replay || belief.Mismatch != test.mismatch {
				t.Errorf("got attempt %d, replay %q, mismatch %v", belief.State.Attempt, belief.State.Replay, belief.Mismatch)
			}
			if belief.State.Fingerprint != belief.Envelope.Fingerprint() {
				t.Error("the fingerprint is not the envelope's")
			}
			if carriesOurs(belief.Envelope.Headers) {
				t.Error("a header of ours is taken for the publisher's")
			}
			if test.attempt == 0 && !test.mismatch && belief.State.Message != "" {
				t.Error("a new message has an instance id")
			}
		})
	}
}

func TestBelieveKeepsANewerVersionAsItIs(t *testing.T) {
	arrived := everyEnvelope()
	arrived.Headers[headerVersion], arrived.Headers[headerQueue] = int64(2), "orders"
	if belief, err := Believe(arrived, "payments"); err != nil || carriesOurs(belief.Envelope.Headers) {
		t.Errorf("where it does not belong: %v, %v", belief.Envelope.Headers, err)
	}
	var newer *NewerVersionError
	if _, err := Believe(arrived, "orders"); !errors.As(err, &newer) || newer.Version != 2 {
		t.Errorf("got %v", err)
	}
	event := Decoder{}.Tapped(delivery(arrived), goldenEvent().Time, 1)
	wantEnvelope(t, event.Envelope, arrived)
}

// A message that was published by somebody who knows our headers is indexed
// and restored like any other.
func TestHeadersNamedLikeOursAreNoTrouble(t *testing.T) {
	e := Envelope{Exchange: "shop", RoutingKey: "k", Headers: amqp.Table{"tenant": "acme"}}
	clean := e.Fingerprint()
	for name := range fullTable() {
		for _, value := range []any{nil, true, int64(-1), "text", []any{"x"}, amqp.Table{"a": "b"}, strings.Repeat("x", 40000)} {
			arrived := e
			arrived.Headers = amqp.Table{"tenant": "acme", name: value}
			if name == headerVersion && integer(value) > 0 {
				continue
			}
			event := Decoder{Source: "s"}.Tapped(delivery(arrived), goldenEvent().Time, 1)
			if event.Fingerprint != clean || event.Action != Published || event.Replay != "" {
				t.Errorf("%s: %v makes it %+v", name, value, event)
			}
		}
	}
}

// fullTable has every header of ours.
func fullTable() amqp.Table {
	e := nearlyFull(frameMax)
	all := Wrap(everyEnvelope(), fullState("v1:x")).Headers
	maps.Copy(all, WrapWithoutBody(e, fullState("v1:x")).Headers)
	maps.DeleteFunc(all, func(name string, _ any) bool { return !ownedByUs(name) })
	return all
}

func TestOurHeadersAreAllThere(t *testing.T) {
	if n := len(fullTable()); n != 31 {
		t.Errorf("there are %d headers of ours", n)
	}
}
