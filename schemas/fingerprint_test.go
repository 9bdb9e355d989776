package schemas_test

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/internal/wire/wiretest"
	"github.com/watershipmq/watership/schemas"
)

// deadLetter returns a message as it comes back by an exchange for dead letters.
func deadLetter(e schemas.Envelope, exchange, routingKey string) schemas.Envelope {
	e = e.Clone()
	death := func(exchange, routingKey string) amqp.Table {
		return amqp.Table{"queue": "work", "reason": "rejected", "exchange": exchange, "routing-keys": []any{routingKey}}
	}
	e.Headers["x-death"] = []any{death("delayed", "work"), death(e.Exchange, e.RoutingKey)}
	e.Exchange, e.RoutingKey = exchange, routingKey
	return e
}

// A message is the same after its consumers counted an attempt in a header, and after they
// dead-lettered it, as far as the settings say so.
func TestFingerprintsOfCopies(t *testing.T) {
	original := wiretest.EveryEnvelope()
	counted := original.Clone()
	counted.Headers["tenant"] = "other"
	back := deadLetter(original, "back", "again")
	both := deadLetter(counted, "back", "again")
	typed := original.Clone()
	for name, value := range typed.Headers { // as a client in another language publishes them
		switch v := value.(type) {
		case int16:
			typed.Headers[name] = int64(v)
		case float32:
			typed.Headers[name] = float64(v)
		case []byte:
			typed.Headers[name] = string(v)
		}
	}
	for name, test := range map[string]struct {
		rule schemas.Fingerprints
		same map[string]bool
	}{
		"no rule": {schemas.Fingerprints{}, map[string]bool{}},
		"ignore":  {schemas.Fingerprints{IgnoreHeaders: []string{"none such", "tenant"}}, map[string]bool{"counted": true}},
		"fold":    {schemas.Fingerprints{FoldDeadLetters: true}, map[string]bool{"back": true}},
		"types":   {schemas.Fingerprints{FoldTypes: true}, map[string]bool{"typed": true}},
		"ignore and fold": {
			schemas.Fingerprints{IgnoreHeaders: []string{"tenant"}, FoldDeadLetters: true},
			map[string]bool{"counted": true, "back": true, "both": true},
		},
	} {
		want := test.rule.Of(original)
		if ignores := len(test.rule.IgnoreHeaders) > 0 || test.rule.FoldTypes; ignores == (want == original.Fingerprint()) {
			t.Errorf("%s: the fingerprint of the original is the plain one: %v", name, !ignores)
		}
		for what, e := range map[string]schemas.Envelope{"counted": counted, "back": back, "both": both, "typed": typed} {
			if same := test.rule.Of(e) == want; same != test.same[what] {
				t.Errorf("%s: %s has the same fingerprint: %v", name, what, same)
			}
			if folds := test.rule.Folds(e); folds != (test.rule.FoldDeadLetters && what != "counted" && what != "typed") {
				t.Errorf("%s: %s folds: %v", name, what, folds)
			}
		}
	}
}

// A dead letter in the queue of a route has its origin from then on, since its next hop
// removes x-death. A tap's copy stays as it was seen.
func TestOriginOfDeadLetters(t *testing.T) {
	original := wiretest.EveryEnvelope()
	back := deadLetter(original, "back", "again")
	rule := schemas.Fingerprints{FoldDeadLetters: true}
	v := &wire.Verifier{Fingerprints: rule}
	verified, err := v.Verify(back, back.Exchange, "orders")
	if err != nil || verified.Envelope.Exchange != original.Exchange || verified.Envelope.RoutingKey != original.RoutingKey {
		t.Errorf("the route has it from %q with %q, %v", verified.Envelope.Exchange, verified.Envelope.RoutingKey, err)
	}
	if got := verified.State.Fingerprint; got != original.Fingerprint() {
		t.Errorf("the route has it as %s", got)
	}
	if marked := v.VerifyMark(back); marked.Envelope.Exchange != "back" || marked.State.Fingerprint != original.Fingerprint() {
		t.Errorf("the tap has it from %q as %s", marked.Envelope.Exchange, marked.State.Fingerprint)
	}
}

// Messages that wait, and events without a body of their own, have the fingerprint of the time
// before the settings were made.
func TestFingerprintsOfBefore(t *testing.T) {
	e := wiretest.EveryEnvelope()
	state := schemas.State{Fingerprint: e.Fingerprint(), Message: "01J", Queue: "orders", Attempt: 2}
	v := &wire.Verifier{Fingerprints: schemas.Fingerprints{IgnoreHeaders: []string{"tenant"}, FoldDeadLetters: true}}
	atQueue := wiretest.Arriving(wire.DefaultFrameMax.WrapForQueue(e, state, "guest"), schemas.Topology{}.Direct(), "orders")
	if got, err := v.Verify(atQueue, atQueue.Exchange, "orders"); err != nil || got.Mismatch || got.State.Attempt != 2 {
		t.Errorf("at its queue: attempt %d, mismatch %v, %v", got.State.Attempt, got.Mismatch, err)
	}
	poisoned := wiretest.Arriving(wire.DefaultFrameMax.Wrap(e, state), schemas.Topology{}.Direct(), schemas.Topology{}.Poison())
	if got, found, err := v.VerifyPoison(poisoned); err != nil || !found || got.Mismatch {
		t.Errorf("in the queue of poison: found %v, mismatch %v, %v", found, got.Mismatch, err)
	}
	state.Replay, state.ReplayOf = "job", "01A"
	replayed := wiretest.Arriving(wire.DefaultFrameMax.WrapForExchange(e, state, "guest"), e.Exchange, e.RoutingKey)
	if got := v.VerifyMark(replayed); got.State.Replay != "job" || got.State.Fingerprint != e.Fingerprint() {
		t.Errorf("replayed: job %q, fingerprint %s", got.State.Replay, got.State.Fingerprint)
	}
	e.Body = []byte("another")
	if changed := wiretest.Arriving(wire.DefaultFrameMax.WrapForQueue(e, state, "guest"), schemas.Topology{}.Direct(), "orders"); v.Fingerprints.Of(e) != state.Fingerprint {
		if got, _ := v.Verify(changed, changed.Exchange, "orders"); !got.Mismatch {
			t.Error("another message has the state")
		}
	}
}
