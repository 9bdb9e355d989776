package schemas

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"
)

// named returns a table made from arbitrary bytes. Its keys are often from names,
// and its values often have the expected type and form.
func (m *tableMaker) named(names []string) amqp.Table {
	table := amqp.Table{}
	for n := m.take(1)[0] % 16; n > 0; n-- {
		name := m.take(1)[0]
		if int(name) < len(names) {
			table[names[name]] = m.likely(names)
		} else {
			table[m.text()] = m.value(name, 0)
		}
	}
	return table
}

func (m *tableMaker) likely(names []string) any {
	kind := m.take(1)[0]
	switch kind % 8 {
	case 0:
		return m.text()
	case 1:
		return int64(int8(m.take(1)[0]))
	case 2:
		return strings.Repeat(m.text(), int(m.take(1)[0]))
	case 3:
		return time.Unix(int64(m.take(1)[0])<<32, 0).UTC().Format(time.RFC3339Nano)
	case 4:
		return []any{m.named([]string{"time", "class"}), m.named(names)}
	case 5:
		return []any{m.text(), m.text()}
	case 6:
		return "watership." + m.text()
	}
	return m.value(kind, 0)
}

var stateHeaders = []string{
	headerVersion, headerFingerprint, headerMessage, headerQueue, headerAttempt, headerExchange, headerRoutingKey,
	headerFirstFailed, headerError, headerErrorType, headerErrorClass, headerStack, headerEventID, headerTime,
	headerAttempts, headerDelay, headerWaits, headerWaitsSince, headerMissing, headerNotBefore, headerUndecided, headerDeliveries, headerSuspect, headerPosition, headerRoute, headerPark, headerDuration, headerParent, headerProgress, headerClaimed,
	headerReplay, headerReplayOf, headerBodySize, headerSignature, headerBodyIn, headerExpiration, headerUserID,
	headerCarbonCopy, headerPriority, headerDeliveryMode, headerTimestamp, headerBrokerCopy, headerWrapped,
	headerBundled, headerKeptFor, headerKeptSince, headerCC, headerBCC, headerBrokerTime, "x-death", "tenant",
}

// hostile returns a message that Watership sent, with other headers, body and
// exchange, and with the fingerprint and exchange that its sender claims.
func hostile(data, body []byte, exchange uint8) Envelope {
	e := everyEnvelope()
	state := State{Message: "01J", Attempt: 2, EventID: "01K", Time: time.Unix(1_700_000_000, 0), Replay: "job", ReplayOf: "01A"}
	state.Fingerprint = e.Fingerprint()
	state.Queue = "orders"
	arrived := arriving(DefaultFrameMax.Wrap(e, state), exchanges[int(exchange)%len(exchanges)], "orders")
	if len(body) > 0 {
		arrived.Body = body
	}
	maps.Copy(arrived.Headers, (&tableMaker{data}).named(stateHeaders))
	if exchange >= 128 { // the fingerprint is no secret
		inner, _, _ := arrived.Unwrap()
		arrived.Headers[headerFingerprint] = inner.Fingerprint()
	}
	return arrived
}

// The first two belong to Watership alone.
var exchanges = []string{
	Topology{}.Direct(), Topology{}.Return(), "", "shop", Topology{}.Events(), Topology{}.Retry(), Topology{}.Late(), Topology{}.Tap(),
}

func addHostile(f *testing.F) {
	for exchange := range uint8(8) {
		f.Add([]byte{}, []byte{}, exchange)
		f.Add([]byte{1, 4, 1, 0x85}, []byte("{}"), exchange|128)
	}
	for header := range uint8(len(stateHeaders)) {
		f.Add([]byte{2, header, 1, 0xff, header, 4, 2, 0, 3, 9, 1, 0, 3, 'a', 'b', 'c'}, []byte("x"), header|128)
	}
	f.Add([]byte{1, 33, 1, 1}, []byte("\x00\x00\x00\x02{}rest"), uint8(128))
}

// FuzzVerify checks every message in any queue: its state is within bounds and has
// its fingerprint; no header of Watership's passes for the publisher's; from an
// exchange of others nothing of a state counts except the mark of a replay; with
// keys nothing counts unsigned; and a state that counts is sent on unchanged.
func FuzzVerify(f *testing.F) {
	addHostile(f)
	keys, err := ParseStateKeys([]byte(strings.Repeat("k", shortestKey)))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data, body []byte, exchange uint8) {
		arrived := hostile(data, body, exchange)
		before := arrived.Clone()
		for name, read := range readers(arrived) {
			for _, v := range []*Verifier{{}, {Keys: keys}, {FormerRelease: true}} {
				verified, err := read(v)
				var newer *NewerVersionError
				if errors.As(err, &newer) && newer.Version > WireVersion {
					continue
				}
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				checkVerified(t, arrived, verified, slices.Contains(exchanges[:2], arrived.Exchange) || arrived.Exchange == "" && v.FormerRelease)
				if s := verified.State; v.Keys.Signs() && (s.Attempt > 0 || s.Message != "" || s.Replay != "") {
					t.Errorf("%s: a state without a signature counts: %+v", name, s)
				}
			}
		}
		if diff := cmp.Diff(before, arrived, bitwise(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("reading a message changed it:\n%s", diff)
		}
	})
}

// readers returns the functions that read a message, by its queue.
func readers(arrived Envelope) map[string]func(v *Verifier) (VerifiedState, error) {
	return map[string]func(v *Verifier) (VerifiedState, error){
		"queue": func(v *Verifier) (VerifiedState, error) { return v.Verify(arrived, arrived.Exchange, "orders") },
		"due": func(v *Verifier) (VerifiedState, error) {
			wait := death(Topology{}.Delays().Queue(time.Second), "expired", arrived.Exchange, "k")
			verified, _, err := v.VerifyDue(with(arrived, amqp.Table{"x-death": []any{wait}}))
			return verified, err
		},
		"poison": func(v *Verifier) (VerifiedState, error) {
			verified, _, err := v.VerifyPoison(arrived)
			return verified, err
		},
		"tap": func(v *Verifier) (VerifiedState, error) { return v.VerifyMark(arrived), nil },
	}
}

func checkVerified(t *testing.T, arrived Envelope, v VerifiedState, byOurs bool) {
	t.Helper()
	checkBounds(t, v.State)
	if hasWatershipHeaders(v.Envelope.Headers) {
		t.Errorf("a header of Watership's is taken for the publisher's: %v", v.Envelope.Headers)
	}
	_, omitted := arrived.OmittedBody()
	known := v.State.Fingerprint == v.Envelope.Fingerprint()
	if !known && !v.Mismatch && !omitted {
		t.Error("the fingerprint is another message's")
	}
	if s := v.State; !byOurs && (s.Attempt > 0 || s.Message != "" || s.Queue != "" || s.Waits > 0 || s.EventID != "") {
		t.Errorf("a state of a publisher's counts: %+v", s)
	}
	if !byOurs && v.Envelope.Properties.UserID != arrived.Properties.UserID {
		t.Errorf("the user is %q", v.Envelope.Properties.UserID)
	}
	if v.State.Queue != "" && known {
		checkSentOn(t, v)
	}
}

func checkSentOn(t *testing.T, v VerifiedState) {
	t.Helper()
	sent := DefaultFrameMax.WrapForQueue(v.Envelope, v.State, "guest")
	if size := HeaderFrameSize(sent); size > frameMax {
		t.Errorf("a header frame of %d bytes", size)
	}
	again, err := (&Verifier{}).Verify(returned(sent), Topology{}.Direct(), v.State.Queue)
	want := v.State
	want.Version = WireVersion
	if diff := cmp.Diff(want, again.State, cmpopts.EquateEmpty()); err != nil || diff != "" {
		t.Errorf("sent on, the state is another: %v\n%s", err, diff)
	}
}

func checkBounds(t *testing.T, s State) {
	t.Helper()
	within := s.Attempt >= 0 && s.Attempt <= mostCounted && s.Waits >= 0 && s.Waits <= mostCounted &&
		s.Delay >= 0 && s.Delay <= longestDelay && s.Duration >= 0 && s.Version >= 0 && s.Version <= WireVersion &&
		len(s.Attempts) <= maxAttempts && len(s.Message) <= longestName && len(s.Queue) <= longestName &&
		len(s.Failure.Message) <= errorBudget && len(s.Failure.Stack) <= stackBudget
	times := []time.Time{s.FirstFailed, s.Time, s.WaitsSince, s.MissingSince, s.NotBefore}
	for _, attempt := range s.Attempts {
		times = append(times, attempt.Time)
	}
	storable := !slices.ContainsFunc(times, func(at time.Time) bool { return at.UTC().Year() < 0 || at.UTC().Year() > 9999 })
	if !within || !storable {
		t.Errorf("a state out of bounds: %+v", s)
	}
}

// FuzzEvents: any message in the queues of tap copies and of events gives an event
// with a document and an id that a store accepts, or an error with a text.
func FuzzEvents(f *testing.F) {
	addHostile(f)
	dec := Decoder{Source: "shop", VHost: "/", TimeHeaders: stateHeaders}
	taken := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	f.Fuzz(func(t *testing.T, data, body []byte, exchange uint8) {
		d := delivery(hostile(data, body, exchange))
		checkEvent(t, dec.Tapped(d, taken, 1))
		d.Exchange, d.RoutingKey = dec.Topology.Events(), string(Poisoned)
		event, err := dec.Lifecycle(d, taken, 1)
		if err != nil {
			event = dec.Unreadable(d, taken, 1, err)
		}
		checkEvent(t, event)
		events, _ := dec.Unbundle(d)
		if len(events) > mostBundled {
			t.Errorf("%d events in a bundle", len(events))
		}
		for _, event := range events {
			checkEvent(t, event)
		}
	})
}

func checkEvent(t *testing.T, e Event) {
	t.Helper()
	if err := e.checkFields(); err != nil {
		t.Error(err)
	}
	parsed := throughDocument(t, e)
	if parsed.EventID != e.EventID || e.BodyIn == BodyHere && parsed.Envelope.Fingerprint() != e.Envelope.Fingerprint() {
		t.Errorf("event %q of %s is event %q of %s in its document",
			e.EventID, e.Envelope.Fingerprint(), parsed.EventID, parsed.Envelope.Fingerprint())
	}
	checkWrittenAgain(t, e)
	checkWrittenAgain(t, e.Quarantine("refused"))
}

// checkWrittenAgain checks that the document of an event, read and written again, is the same:
// the indexer has only the document of an event when it has to change the event.
func checkWrittenAgain(t *testing.T, e Event) {
	t.Helper()
	for _, format := range []DocumentFormat{{}, {NoBodyText: true, NoBodyJSON: true, Labels: []string{"tenant"}, NumericLabels: []string{"int32"}}, {MaxValues: 1}} {
		first := format.Append(nil, e)
		read, err := ParseDocument(first)
		if err != nil {
			t.Fatalf("%v: %s", err, first)
		}
		if diff := cmp.Diff(string(first), string(format.Append(nil, read))); diff != "" {
			t.Errorf("a document that is written again is another one: %s", diff)
		}
	}
}

var deathHeaders = []string{"queue", "reason", "exchange", "routing-keys", "count", "time", "original-expiration"}

// FuzzDeadLetter: with any x-death, reverting the newest death of a message gives
// the message before it, with its other headers unchanged; the result is no dead
// letter; and DeadLetter asks about no more deaths than there are.
func FuzzDeadLetter(f *testing.F) {
	f.Add([]byte{}, uint8(0), "shop", "order.created")
	f.Add([]byte{2, 0, 0, 3, 'a', 'b', 'c', 3, 5, 0, 0}, uint8(3), "", "\xff")
	f.Add([]byte{5, 0, 1, 9, 1, 1, 9, 2, 1, 9, 3, 4, 2, 0, 4, 1, 0x80}, uint8(9), "a", "")
	f.Fuzz(func(t *testing.T, data []byte, older uint8, exchange, key string) {
		if exchange == "" { // which routes messages to the queue named by the key
			key = "orders"
		}
		maker := &tableMaker{data}
		list := []any{death("orders", "rejected", exchange, key)}
		for range older % 16 {
			list = append(list, maker.named(deathHeaders), maker.value(older, 0))
		}
		e := everyEnvelope()
		e.Exchange, e.RoutingKey = exchange, key
		died := with(e, amqp.Table{"x-death": list, "x-first-death-queue": list, "x-last-death-reason": maker.value(older, 0)})
		died.Exchange, died.RoutingKey = Topology{}.Retry(), "parked"

		before, newest, dead := died.DeadLetter(nil)
		if !dead || newest.Queue != "orders" || before.Fingerprint() != e.Fingerprint() {
			t.Errorf("it died in %q and was %+v", newest.Queue, before)
		}
		wantEnvelope(t, before, e)
		if _, _, dead := before.DeadLetter(nil); dead {
			t.Error("what is undone is a dead letter")
		}
		asked := 0
		died.DeadLetter(func(older, newer Death) bool { asked++; return older.Queue != newer.Queue || asked%3 > 0 })
		if asked >= len(list) {
			t.Errorf("asked about %d pairs of %d deaths", asked, len(list))
		}
		dec := Decoder{Source: "shop", VHost: "/"}
		late := delivery(died)
		late.Exchange, late.Headers = dec.Topology.Late(), amqp.Table{"x-death": append(list, death(dec.Topology.Index(), "expired", exchange, key))}
		if event := dec.Tapped(late, time.Unix(1_700_000_000, 0), 1); event.Envelope.Headers["x-death"] != nil {
			t.Error("a late copy keeps the deaths in queues of Watership's")
		}
	})
}
