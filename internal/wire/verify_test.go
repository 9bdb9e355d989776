package wire

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/framesize"
	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/internal/wire/wiretest"
	"github.com/watershipmq/watership/schemas"
)

// verifier returns a Verifier with the default topology, without keys.
func verifier() *Verifier { return &Verifier{} }

// returned returns a message as it arrives by the exchange of the last hop.
func returned(p amqp.Publishing) schemas.Envelope {
	return wiretest.Arriving(p, schemas.Topology{}.Direct(), "orders")
}

func verified(t *testing.T, arrived schemas.Envelope, queue string) VerifiedState {
	t.Helper()
	v, err := verifier().Verify(arrived, arrived.Exchange, queue)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func by(exchange string, e schemas.Envelope) schemas.Envelope {
	e.Exchange = exchange
	return e
}

func TestVerify(t *testing.T) {
	e := wiretest.EveryEnvelope()
	fp := e.Fingerprint()
	state := schemas.State{Fingerprint: fp, Message: "01J", Queue: "orders", Attempt: 2, Replay: "job", ReplayOf: "01A"}
	own := func() schemas.Envelope { return returned(DefaultFrameMax.WrapForQueue(e, state, "guest")) }
	marked := wiretest.Arriving(DefaultFrameMax.WrapForExchange(e, state, "guest"), e.Exchange, e.RoutingKey)
	other := func(e schemas.Envelope) schemas.Envelope { e.Body = []byte("another"); return e }
	// A publisher that has computed the message's fingerprint can send these
	// headers.
	forged := by("shop", wiretest.With(e, DefaultFrameMax.WrapForQueue(e, state, "guest").Headers))
	for name, test := range map[string]struct {
		arrived  schemas.Envelope
		queue    string
		attempt  int
		replay   string
		mismatch bool
	}{
		"a new message":                                 {e, "orders", 0, "", false},
		"its own state":                                 {own(), "orders", 2, "job", false},
		"by the exchange for queues of others":          {by(schemas.Topology{}.Return(), own()), "orders", 2, "job", false},
		"by the default exchange":                       {by("", own()), "orders", 0, "", true},
		"by the exchange of dead letters":               {by(schemas.Topology{}.Retry(), own()), "orders", 0, "", true},
		"by the exchange of events":                     {by(schemas.Topology{}.Events(), own()), "orders", 0, "", true},
		"forged by its publisher":                       {forged, "orders", 0, "job", true},
		"headers copied to another message, same queue": {other(own()), "orders", 0, "", true},
		"headers copied to another queue":               {by(e.Exchange, own()), "invoices", 0, "", false},
		"headers copied to another message and queue":   {other(own()), "invoices", 0, "", false},
		"at the tap no queue is right":                  {own(), "", 0, "", false},
		"a state that names no queue":                   {returned(amqp.Publishing{Headers: amqp.Table{headerVersion: int64(1), headerQueue: "", headerFingerprint: fp, headerAttempt: int64(9)}}), "", 0, "", false},
		"a state without a version":                     {wiretest.With(own(), amqp.Table{headerVersion: int64(0)}), "orders", 0, "", false},
		"a state of a negative version":                 {wiretest.With(own(), amqp.Table{headerVersion: int64(-1)}), "orders", 0, "", false},
		"a replay mark at the tap":                      {marked, "", 0, "job", false},
		"a replay mark at a queue":                      {marked, "orders", 0, "job", false},
		"a replay mark on another message":              {other(marked), "", 0, "", false},
		"a replay mark that would make no id":           {wiretest.With(marked, amqp.Table{headerReplay: strings.Repeat("j", 129)}), "", 0, "", false},
		"a replay mark that is no text":                 {wiretest.With(marked, amqp.Table{headerReplay: "\xff"}), "", 0, "", false},
		"a replay mark that rings":                      {wiretest.With(marked, amqp.Table{headerReplay: "\a"}), "", 0, "", false},
		"a replay mark of no job":                       {wiretest.With(marked, amqp.Table{headerReplay: ""}), "", 0, "", false},
		"a replay mark of a coloured event":             {wiretest.With(marked, amqp.Table{headerReplayOf: "\x1b[31m"}), "", 0, "", false},
		"a replay mark of a long event":                 {wiretest.With(marked, amqp.Table{headerReplayOf: strings.Repeat("e", 513)}), "", 0, "", false},
		"a fingerprint of another type":                 {wiretest.With(marked, amqp.Table{headerFingerprint: int64(1)}), "", 0, "", false},
		"a claim to be wrapped":                         {wiretest.With(e, amqp.Table{headerWrapped: int64(1)}), "orders", 0, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			v := verified(t, test.arrived, test.queue)
			if v.State.Attempt != test.attempt || v.State.Replay != test.replay || v.Mismatch != test.mismatch {
				t.Errorf("got attempt %d, replay %q, mismatch %v", v.State.Attempt, v.State.Replay, v.Mismatch)
			}
			if v.State.Fingerprint != v.Envelope.Fingerprint() {
				t.Error("the fingerprint is not the envelope's")
			}
			if hasWatershipHeaders(v.Envelope.Headers) {
				t.Error("a header of Watership is taken for the publisher's")
			}
			if test.attempt == 0 && v.State.Message != "" {
				t.Error("a new message has an instance id")
			}
			if v.Envelope.Properties.UserID != e.Properties.UserID && test.arrived.Properties.UserID == e.Properties.UserID {
				t.Errorf("the user is %q", v.Envelope.Properties.UserID)
			}
		})
	}
}

// No header of Watership's that a publisher wrote becomes a property, or a header
// that brokers obey.
func TestHeadersOfAPublisherBecomeNoProperties(t *testing.T) {
	e := schemas.Envelope{Exchange: "shop", RoutingKey: "k", Body: []byte("x")}
	state := schemas.State{Queue: "orders", Replay: "job", ReplayOf: "01A", Attempt: -7}
	forge := func(as schemas.Envelope) schemas.Envelope {
		state.Fingerprint = as.Fingerprint()
		wrapped := DefaultFrameMax.Wrap(as, state)
		return schemas.Envelope{Exchange: "shop", RoutingKey: "k", Body: e.Body, Headers: wrapped.Headers}
	}
	as := e
	as.Properties = schemas.Properties{UserID: "admin", Expiration: "1", Priority: 9, DeliveryMode: 1}
	as.Headers = amqp.Table{"CC": []any{"victim"}}
	elsewhere := as
	elsewhere.Exchange, elsewhere.RoutingKey = "", "victim"
	for _, arrived := range []schemas.Envelope{forge(as), forge(elsewhere)} {
		for what, got := range map[string]VerifiedState{
			"at a queue": verified(t, arrived, "orders"), "at the tap": verifier().VerifyMark(arrived),
			"due": orNew(verifier().VerifyDue(arrived)), "given up": orNew(verifier().VerifyPoison(arrived)),
		} {
			if diff := cmp.Diff(e, got.Envelope, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s, the message is another (-want +got):\n%s", what, diff)
			}
			if got.State.Attempt != 0 || got.State.Queue != "" {
				t.Errorf("%s, it has the state %+v", what, got.State)
			}
		}
	}
}

func orNew(v VerifiedState, found bool, err error) VerifiedState {
	if found || err != nil {
		return VerifiedState{State: schemas.State{Queue: fmt.Sprint("found ", found, err)}}
	}
	return v
}

// died returns a message as it comes out of a delay queue.
func died(p amqp.Publishing, queue, by, out string) schemas.Envelope {
	arrived := wiretest.Arriving(p, out, schemas.Topology{}.Due())
	arrived.Headers = maps.Clone(arrived.Headers)
	arrived.Headers["x-death"] = []any{wiretest.Death(queue, "expired", by, queue)}
	return arrived
}

func TestVerifyDue(t *testing.T) {
	e, names := wiretest.EveryEnvelope(), schemas.Topology{}
	state := schemas.State{Fingerprint: e.Fingerprint(), Queue: "orders", Attempt: 2}
	wrapped, wait, former := DefaultFrameMax.Wrap(e, state), DelaysOf(names).Queue(time.Second), DelaysOf(names).Former(time.Second)
	changed := died(wrapped, wait, names.Direct(), names.Direct())
	changed.Body = []byte("another")
	died2, negative := died(wrapped, wait, names.Direct(), names.Direct()), died(wrapped, wait, names.Direct(), names.Direct())
	died2.Headers["x-death"].([]any)[0].(amqp.Table)["count"] = int64(2)
	negative.Headers[headerAttempt] = int64(-2)
	for name, test := range map[string]struct {
		arrived         schemas.Envelope
		found, mismatch bool
		formerRelease   bool
	}{
		"has waited":                 {died(wrapped, wait, names.Direct(), names.Direct()), true, false, false},
		"without room":               {died(DefaultFrameMax.Wrap(nearlyFull(frameMax), schemas.State{Fingerprint: nearlyFull(frameMax).Fingerprint(), Queue: "orders", Attempt: 2}), wait, names.Direct(), names.Direct()), true, false, false},
		"changed meanwhile":          {changed, true, true, false},
		"put there directly":         {wiretest.Arriving(wrapped, "", names.Due()), false, false, false},
		"put into a delay":           {died(wrapped, wait, "", names.Direct()), false, false, false},
		"by another exchange":        {died(wrapped, wait, names.Direct(), "shop"), false, false, false},
		"from another queue":         {died(wrapped, "orders", names.Direct(), names.Direct()), false, false, false},
		"of no delay":                {died(wrapped, wait+"x", names.Direct(), names.Direct()), false, false, false},
		"for no queue":               {died(DefaultFrameMax.Wrap(e, schemas.State{Fingerprint: e.Fingerprint(), Attempt: 2}), wait, names.Direct(), names.Direct()), false, false, false},
		"for a queue of ours":        {died(DefaultFrameMax.Wrap(e, schemas.State{Fingerprint: e.Fingerprint(), Queue: names.Log(), Attempt: 2}), wait, names.Direct(), names.Direct()), false, false, false},
		"that died twice":            {died2, false, false, false},
		"with less than no attempts": {negative, false, false, false},
		"without a state":            {died(amqp.Publishing{Headers: amqp.Table{}}, wait, names.Direct(), names.Direct()), false, false, false},
		"of a former release":        {died(wrapped, former, "", ""), true, false, true},
		"of one that is gone":        {died(wrapped, former, "", ""), false, false, false},
		"not of a former one":        {died(wrapped, "orders", "", ""), false, false, true},
		"that never died":            {wiretest.Arriving(wrapped, "", names.Due()), false, false, true},
		"of this one, however":       {died(wrapped, wait, names.Direct(), names.Direct()), true, false, true},
	} {
		v, found, err := (&Verifier{FormerRelease: test.formerRelease}).VerifyDue(test.arrived)
		if err != nil || found != test.found || v.Mismatch != test.mismatch || found != (v.State.Attempt == 2) {
			t.Errorf("%s: found %v, mismatch %v, %+v, %v", name, found, v.Mismatch, v.State, err)
		}
		if found && !v.Mismatch && v.Envelope.Fingerprint() != v.State.Fingerprint {
			t.Errorf("%s: it is another message", name)
		}
	}
}

// A death that a publisher may have written proves no user, unless the state is signed.
func TestUserOfAForgeableDeath(t *testing.T) {
	e, names := wiretest.EveryEnvelope(), schemas.Topology{}
	e.Properties.UserID = "guest"
	state := schemas.State{Fingerprint: e.Fingerprint(), Queue: "orders", Attempt: 2}
	wait := DelaysOf(names).Queue(time.Second)
	for name, test := range map[string]struct {
		v    Verifier
		want string
	}{
		"written by the broker": {Verifier{}, "guest"},
		"forgeable":             {Verifier{ForgeableDeaths: true}, ""},
		"signed":                {Verifier{ForgeableDeaths: true, Keys: keysOf(t, oneKey)}, "guest"},
	} {
		due := died(test.v.Sign(names.Direct(), wait, DefaultFrameMax.Wrap(e, state)), wait, names.Direct(), names.Direct())
		if got, found, err := test.v.VerifyDue(due); err != nil || !found || got.Envelope.Properties.UserID != test.want {
			t.Errorf("%s: due with user %q, %v, %v", name, got.Envelope.Properties.UserID, found, err)
		}
		returned := wiretest.Arriving(test.v.Sign(names.Return(), "k", DefaultFrameMax.WrapForQueue(e, state, "guest")), names.Return(), "orders")
		got, err := test.v.VerifyDead(returned, header.Death{Queue: "orders", Exchange: names.Return()})
		if err != nil || got.State.Attempt != 2 || got.Envelope.Properties.UserID != test.want {
			t.Errorf("%s: dead with user %q, %+v, %v", name, got.Envelope.Properties.UserID, got.State, err)
		}
	}
	own := schemas.Envelope{Exchange: "shop", Properties: schemas.Properties{UserID: "shop-frontend"}}
	if got, err := (&Verifier{ForgeableDeaths: true}).VerifyDead(own, header.Death{Queue: "orders", Exchange: "shop"}); err != nil || got.Envelope.Properties.UserID == "" {
		t.Errorf("a new message: %+v, %v", got, err)
	}
}

func TestVerifyPoison(t *testing.T) {
	e, names := wiretest.EveryEnvelope(), schemas.Topology{}
	state := schemas.State{Fingerprint: e.Fingerprint(), Queue: "orders", Attempt: 2, EventID: "01K"}
	for name, test := range map[string]struct {
		exchange      string
		formerRelease bool
		found         bool
	}{
		"of this release": {names.Direct(), false, true}, "put there": {"", false, false}, "by a publisher's": {"shop", false, false},
		"of a former release": {"", true, true}, "put there by a publisher's": {"shop", true, false},
	} {
		v, found, err := (&Verifier{FormerRelease: test.formerRelease}).VerifyPoison(wiretest.Arriving(DefaultFrameMax.Wrap(e, state), test.exchange, names.Poison()))
		if err != nil || found != test.found || found != (v.State.EventID == "01K") {
			t.Errorf("%s: found %v, %+v, %v", name, found, v.State, err)
		}
	}
}

func TestVerifyKeepsANewerVersionAsItIs(t *testing.T) {
	arrived := by(schemas.Topology{}.Direct(), wiretest.EveryEnvelope())
	arrived.Headers[headerVersion], arrived.Headers[headerQueue] = int64(2), "orders"
	if v, err := verifier().Verify(arrived, arrived.Exchange, "payments"); err != nil || hasWatershipHeaders(v.Envelope.Headers) {
		t.Errorf("where it does not belong: %v, %v", v.Envelope.Headers, err)
	}
	if v, err := verifier().Verify(by("shop", arrived), "shop", "orders"); err != nil || hasWatershipHeaders(v.Envelope.Headers) {
		t.Errorf("a publisher's: %v, %v", v.Envelope.Headers, err)
	}
	var newer *NewerVersionError
	if _, err := verifier().Verify(arrived, arrived.Exchange, "orders"); !errors.As(err, &newer) || newer.Version != 2 {
		t.Errorf("got %v", err)
	}
	event := Decoder{}.Tapped(wiretest.Delivery(arrived), wiretest.GoldenEvent().Time, 1)
	wiretest.WantEnvelope(t, event.Envelope, arrived)
}

// A state with values out of bounds is limited when it is read.
func TestStatesAreBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	attempts := slices.Repeat([]any{amqp.Table{"time": "9999-12-31T23:59:59Z", "class": long}}, 1000)
	state := readState(header.Table{
		headerVersion: int64(1), headerAttempt: int64(-1000000), headerDelay: int64(math.MaxInt64), headerDuration: int64(-1),
		headerMessage: long, headerQueue: long, headerError: long, headerErrorType: long, headerErrorClass: long, headerStack: long,
		headerParent: long, headerAttempts: attempts, headerWaits: int64(math.MinInt64),
		headerTime: "-0001-01-01T00:00:00Z",
	})
	if state.Attempt != 0 || state.Waits != 0 || state.Delay != header.LongestDelay || state.Duration != 0 || len(state.Attempts) != mostAttempts || !state.Time.IsZero() {
		t.Errorf("%d attempts of %d, %d waits, delay %s, duration %s, time %s", state.Attempt, len(state.Attempts), state.Waits, state.Delay, state.Duration, state.Time)
	}
	all := header.Table{}
	writeState(state, all)
	if size := framesize.OfTable(amqp.Table(all)); size > stateRoom+stackBudget {
		t.Errorf("%d bytes", size)
	}
}

// A message from a publisher that uses the names of Watership's headers is indexed
// and restored like any other.
func TestHeadersNamedLikeOursAreNoTrouble(t *testing.T) {
	e := schemas.Envelope{Exchange: "shop", RoutingKey: "k", Headers: amqp.Table{"tenant": "acme"}}
	clean := e.Fingerprint()
	for name := range fullTable() {
		for _, value := range []any{nil, true, int64(-1), "text", []any{"x"}, amqp.Table{"a": "b"}, strings.Repeat("x", 40000)} {
			arrived := e
			arrived.Headers = amqp.Table{"tenant": "acme", name: value}
			if name == headerVersion && header.Integer(value) > 0 {
				continue
			}
			event := Decoder{Source: "s"}.Tapped(wiretest.Delivery(arrived), wiretest.GoldenEvent().Time, 1)
			if event.Fingerprint != clean || event.Action != schemas.Published || event.Replay != "" {
				t.Errorf("%s: %v makes it %+v", name, value, event)
			}
		}
	}
}

// fullTable has every header of Watership.
func fullTable() amqp.Table {
	e := nearlyFull(frameMax)
	all := DefaultFrameMax.Wrap(wiretest.EveryEnvelope(), fullState("v1:x")).Headers
	maps.Copy(all, DefaultFrameMax.WrapWithoutBody(e, fullState("v1:x"), OmittedBody{Size: len(e.Body), In: schemas.BodyInPublished}).Headers)
	maps.DeleteFunc(all, func(name string, _ any) bool { return !header.IsWatership(name) })
	return all
}

func TestOurHeadersAreAllThere(t *testing.T) {
	if n := len(fullTable()); n != 35 {
		t.Errorf("there are %d headers of Watership", n)
	}
}
