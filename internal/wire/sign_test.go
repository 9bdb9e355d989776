package wire

import (
	"maps"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/internal/wire/wiretest"
	"github.com/watershipmq/watership/schemas"
)

func keysOf(t *testing.T, text string) schemas.StateKeys {
	t.Helper()
	keys, err := schemas.ParseStateKeys([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

var (
	oneKey   = strings.Repeat("1", 32)
	otherKey = strings.Repeat("2", 32)
)

// A signature covers every header of Watership: none can be changed, removed or added.
func TestSignatureCoversEachHeader(t *testing.T) {
	v := Verifier{Keys: keysOf(t, oneKey)}
	names := schemas.Topology{}
	e := wiretest.EveryEnvelope()
	state := fullState(e.Fingerprint())
	state.MissingSince, state.NotBefore, state.Undecided = time.Time{}, time.Time{}, false
	signed := v.Sign(names.Direct(), state.Queue, DefaultFrameMax.WrapForQueue(e, state, "guest"))
	counts := func(headers amqp.Table) bool {
		arrived := returned(signed)
		arrived.Headers = headers
		verified, err := v.Verify(arrived, names.Direct(), state.Queue)
		return err == nil && verified.State.Attempt > 0
	}
	if !counts(signed.Headers) {
		t.Fatal("the state does not count as it was signed")
	}
	checked := 0
	for name := range signed.Headers {
		if !header.IsWatership(name) {
			continue
		}
		checked++
		for how, change := range map[string]func(amqp.Table){
			"removed": func(h amqp.Table) { delete(h, name) },
			"changed": func(h amqp.Table) { h[name] = "another" },
			"retyped": func(h amqp.Table) { h[name] = []any{h[name]} },
		} {
			headers := maps.Clone(signed.Headers)
			change(headers)
			if counts(headers) {
				t.Errorf("%s can be %s", name, how)
			}
		}
	}
	headers := maps.Clone(signed.Headers)
	headers["watership-another"] = "x"
	if counts(headers) {
		t.Error("a header can be added")
	}
	if checked < 20 {
		t.Errorf("only %d headers were checked", checked)
	}
}

// A signature for one use counts for no other: not for another exchange, queue or action.
func TestSignatureCountsForItsUse(t *testing.T) {
	v := Verifier{Keys: keysOf(t, oneKey)}
	names := schemas.Topology{}
	places := map[string][2]string{
		"an event": {names.Events(), "handled"}, "another event": {names.Events(), "poisoned"}, "the last hop": {names.Direct(), "orders"},
		"a delay": {names.Direct(), DelaysOf(names).Queue(time.Second)}, "poison": {names.Direct(), names.Poison()},
		"keeping": {names.Direct(), names.Unstorable()}, "a replay": {"shop", "order.created"},
	}
	e := wiretest.EveryEnvelope()
	for from, sent := range places {
		signed := v.Sign(sent[0], sent[1], DefaultFrameMax.Wrap(e, schemas.State{Fingerprint: e.Fingerprint(), Queue: "orders", Attempt: 1}))
		arrived := wiretest.Arriving(signed, sent[0], sent[1])
		for to, place := range places {
			if counts := accepts(v.Keys, arrived, v.useOf(place[0], place[1])); counts != (from == to) {
				t.Errorf("signed for %s, it counts for %s: %v", from, to, counts)
			}
		}
	}
	if v.useOf(names.Return(), "") != v.useOf(names.Direct(), "orders") {
		t.Error("the two exchanges of the last hop differ")
	}
}

// Keys are replaced in three steps, without a moment in which a state does not count.
func TestKeysAreReplaced(t *testing.T) {
	steps := []string{oneKey, oneKey + "\n" + otherKey, otherKey + "\n" + oneKey, otherKey}
	e := wiretest.EveryEnvelope()
	for i, text := range steps {
		for j, others := range steps {
			signs, verifies := Verifier{Keys: keysOf(t, text)}, Verifier{Keys: keysOf(t, others)}
			p := signs.Sign(schemas.Topology{}.Direct(), "orders", DefaultFrameMax.WrapForQueue(e, schemas.State{Fingerprint: e.Fingerprint(), Queue: "orders", Attempt: 3}, ""))
			v, err := verifies.Verify(returned(p), schemas.Topology{}.Direct(), "orders")
			_, signer, _ := strings.Cut(text, "\n")
			signer, _ = strings.CutSuffix(text, "\n"+signer)
			if want := strings.Contains(others, signer); err != nil || (v.State.Attempt == 3) != want || max(i-j, j-i) == 1 && !want {
				t.Errorf("signed at step %d, verified at step %d: %+v, %v", i, j, v.State, err)
			}
		}
	}
}

// A file of keys that is none is refused with the line, and never with its content.
func TestKeysThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "there is no key",
		" \n\t\n":                    "there is no key",
		"unsigned\n":                 "there is no key",
		"secret":                     "line 1 has 6 bytes: expected a key of at least 32, such as of `openssl rand -hex 32`",
		oneKey + "\nsecret\n":        "line 2 has 6 bytes: expected a key of at least 32, such as of `openssl rand -hex 32`",
		oneKey + "\n\n" + otherKey:   "line 2 has 0 bytes: expected a key of at least 32, such as of `openssl rand -hex 32`",
		"unsigned\n" + oneKey[1:]:    "line 2 has 31 bytes: expected a key of at least 32, such as of `openssl rand -hex 32`",
		"Unsigned\n" + oneKey + "\n": "line 1 has 8 bytes: expected a key of at least 32, such as of `openssl rand -hex 32`",
	} {
		keys, err := schemas.ParseStateKeys([]byte(text))
		if err == nil || err.Error() != want || keys.Signs() {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// With a line "unsigned", a state without a signature counts, and one with a wrong
// signature does not.
func TestUnsignedStates(t *testing.T) {
	e := wiretest.EveryEnvelope()
	for text, counts := range map[string]bool{oneKey: false, oneKey + "\nunsigned": true} {
		v := Verifier{Keys: keysOf(t, text)}
		if v.Keys.Unsigned() != counts || !v.Keys.Signs() {
			t.Errorf("unsigned: %v", v.Keys.Unsigned())
		}
		p := DefaultFrameMax.WrapForQueue(e, schemas.State{Fingerprint: e.Fingerprint(), Queue: "orders", Attempt: 3}, "")
		for signature, want := range map[string]bool{"": counts, "AAAA": false, "?": false} {
			arrived := returned(p)
			arrived.Headers = maps.Clone(p.Headers)
			if signature != "" {
				arrived.Headers[headerSignature] = signature
			}
			if got, err := v.Verify(arrived, schemas.Topology{}.Direct(), "orders"); err != nil || (got.State.Attempt == 3) != want {
				t.Errorf("the signature %q: %+v, %v", signature, got.State, err)
			}
		}
	}
	var none Verifier
	if p := none.Sign(schemas.Topology{}.Direct(), "orders", DefaultFrameMax.Wrap(e, schemas.State{})); p.Headers[headerSignature] != nil {
		t.Error("signed without a key")
	}
	withKey := Verifier{Keys: keysOf(t, oneKey)}
	if p := withKey.Sign("shop", "k", e.Publishing()); p.Headers[headerSignature] != nil {
		t.Error("a message without a state is signed")
	}
}
