package wire

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

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/internal/wire/wiretest"
	"github.com/watershipmq/watership/schemas"
)

// named returns a table made from arbitrary bytes. Its keys are often from names,
// and its values often have the expected type and form.
func named(m *wiretest.TableMaker, names []string) amqp.Table {
	table := amqp.Table{}
	for n := m.Take(1)[0] % 16; n > 0; n-- {
		name := m.Take(1)[0]
		if int(name) < len(names) {
			table[names[name]] = likely(m, names)
		} else {
			table[m.Text()] = m.Value(name, 0)
		}
	}
	return table
}

func likely(m *wiretest.TableMaker, names []string) any {
	kind := m.Take(1)[0]
	switch kind % 8 {
	case 0:
		return m.Text()
	case 1:
		return int64(int8(m.Take(1)[0]))
	case 2:
		return strings.Repeat(m.Text(), int(m.Take(1)[0]))
	case 3:
		return time.Unix(int64(m.Take(1)[0])<<32, 0).UTC().Format(time.RFC3339Nano)
	case 4:
		return []any{named(m, []string{"time", "class"}), named(m, names)}
	case 5:
		return []any{m.Text(), m.Text()}
	case 6:
		return "watership." + m.Text()
	}
	return m.Value(kind, 0)
}

var stateHeaders = []string{
	headerVersion, headerFingerprint, headerMessage, headerQueue, headerAttempt, headerExchange, headerRoutingKey,
	headerFirstFailed, headerError, headerErrorType, headerErrorClass, headerStack, headerEventID, headerTime,
	headerAttempts, headerDelay, headerWaits, headerWaitsSince, headerMissing, headerNotBefore, headerUndecided, headerDeliveries, headerSuspect, headerPosition, headerRoute, headerPark, headerDuration, headerParent, headerProgress, headerClaimed, headerReceiver, headerAnswer, headerTrace,
	headerReplay, headerReplayOf, headerBodySize, headerSignature, headerBodyIn, headerExpiration, headerUserID,
	headerCarbonCopy, headerPriority, headerDeliveryMode, headerTimestamp, headerBrokerCopy, headerWrapped,
	headerBundled, headerKeptFor, headerKeptSince, header.CC, header.BCC, header.BrokerTime, "x-death", "tenant",
}

// hostile returns a message that Watership sent, with other headers, body and
// exchange, and with the fingerprint and exchange that its sender claims.
func hostile(data, body []byte, exchange uint8) schemas.Envelope {
	e := wiretest.EveryEnvelope()
	state := schemas.State{Message: "01J", Attempt: 2, EventID: "01K", Time: time.Unix(1_700_000_000, 0), Replay: "job", ReplayOf: "01A"}
	state.Fingerprint = e.Fingerprint()
	state.Queue = "orders"
	arrived := wiretest.Arriving(DefaultFrameMax.Wrap(e, state), exchanges[int(exchange)%len(exchanges)], "orders")
	if len(body) > 0 {
		arrived.Body = body
	}
	maps.Copy(arrived.Headers, named(&wiretest.TableMaker{Data: data}, stateHeaders))
	if exchange >= 128 { // the fingerprint is no secret
		inner, _, _ := Unwrap(arrived)
		arrived.Headers[headerFingerprint] = inner.Fingerprint()
	}
	return arrived
}

// The first two belong to Watership alone.
var exchanges = []string{
	schemas.Topology{}.Direct(), schemas.Topology{}.Return(), "", "shop", schemas.Topology{}.Events(), schemas.Topology{}.Retry(), schemas.Topology{}.Late(), schemas.Topology{}.Tap(),
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
	keys, err := schemas.ParseStateKeys([]byte(strings.Repeat("k", 32)))
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
				if errors.As(err, &newer) && newer.Version > header.Version {
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
		if diff := cmp.Diff(before, arrived, wiretest.Bitwise(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("reading a message changed it:\n%s", diff)
		}
	})
}

// readers returns the functions that read a message, by its queue.
func readers(arrived schemas.Envelope) map[string]func(v *Verifier) (VerifiedState, error) {
	return map[string]func(v *Verifier) (VerifiedState, error){
		"queue": func(v *Verifier) (VerifiedState, error) { return v.Verify(arrived, arrived.Exchange, "orders") },
		"due": func(v *Verifier) (VerifiedState, error) {
			wait := wiretest.Death(DelaysOf(schemas.Topology{}).Queue(time.Second), "expired", arrived.Exchange, "k")
			verified, _, err := v.VerifyDue(wiretest.With(arrived, amqp.Table{"x-death": []any{wait}}))
			return verified, err
		},
		"poison": func(v *Verifier) (VerifiedState, error) {
			verified, _, err := v.VerifyPoison(arrived)
			return verified, err
		},
		"tap": func(v *Verifier) (VerifiedState, error) { return v.VerifyMark(arrived), nil },
	}
}

func checkVerified(t *testing.T, arrived schemas.Envelope, v VerifiedState, byOurs bool) {
	t.Helper()
	checkBounds(t, v.State)
	if hasWatershipHeaders(v.Envelope.Headers) {
		t.Errorf("a header of Watership's is taken for the publisher's: %v", v.Envelope.Headers)
	}
	_, omitted := OmittedBodyOf(arrived)
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
	again, err := (&Verifier{}).Verify(returned(sent), schemas.Topology{}.Direct(), v.State.Queue)
	want := v.State
	want.Version = header.Version
	if diff := cmp.Diff(want, again.State, cmpopts.EquateEmpty()); err != nil || diff != "" {
		t.Errorf("sent on, the state is another: %v\n%s", err, diff)
	}
}

func checkBounds(t *testing.T, s schemas.State) {
	t.Helper()
	within := s.Attempt >= 0 && s.Attempt <= mostCounted && s.Waits >= 0 && s.Waits <= mostCounted &&
		s.Delay >= 0 && s.Delay <= header.LongestDelay && s.Duration >= 0 && s.Version >= 0 && s.Version <= header.Version &&
		len(s.Attempts) <= mostAttempts && len(s.Message) <= longestName && len(s.Queue) <= longestName &&
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
		d := wiretest.Delivery(hostile(data, body, exchange))
		checkEvent(t, dec.Tapped(d, taken, 1))
		d.Exchange, d.RoutingKey = dec.Topology.Events(), string(schemas.Poisoned)
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

func checkEvent(t *testing.T, e schemas.Event) {
	t.Helper()
	if err := e.Check(time.Unix(1<<40, 0)); err != nil {
		t.Error(err)
	}
	parsed := wiretest.ThroughDocument(t, e)
	if parsed.EventID != e.EventID || e.BodyIn == schemas.BodyHere && parsed.Envelope.Fingerprint() != e.Envelope.Fingerprint() {
		t.Errorf("event %q of %s is event %q of %s in its document",
			e.EventID, e.Envelope.Fingerprint(), parsed.EventID, parsed.Envelope.Fingerprint())
	}
	checkWrittenAgain(t, e)
	checkWrittenAgain(t, e.Quarantine("refused"))
}

// checkWrittenAgain checks that the document of an event, read and written again, is the same:
// the indexer has only the document of an event when it has to change the event.
func checkWrittenAgain(t *testing.T, e schemas.Event) {
	t.Helper()
	for _, format := range []schemas.DocumentFormat{{}, {NoBodyText: true, NoBodyJSON: true, Labels: []string{"tenant"}, NumericLabels: []string{"int32"}}, {MaxValues: 1}} {
		first := format.Append(nil, e)
		read, err := schemas.ParseDocument(first)
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
		maker := &wiretest.TableMaker{Data: data}
		list := []any{wiretest.Death("orders", "rejected", exchange, key)}
		for range older % 16 {
			list = append(list, named(maker, deathHeaders), maker.Value(older, 0))
		}
		e := wiretest.EveryEnvelope()
		e.Exchange, e.RoutingKey = exchange, key
		died := wiretest.With(e, amqp.Table{"x-death": list, "x-first-death-queue": list, "x-last-death-reason": maker.Value(older, 0)})
		died.Exchange, died.RoutingKey = schemas.Topology{}.Retry(), "parked"

		before, newest, dead := DeadLetter(died, nil)
		if !dead || newest.Queue != "orders" || before.Fingerprint() != e.Fingerprint() {
			t.Errorf("it died in %q and was %+v", newest.Queue, before)
		}
		wiretest.WantEnvelope(t, before, e)
		if _, _, dead := DeadLetter(before, nil); dead {
			t.Error("what is undone is a dead letter")
		}
		asked := 0
		DeadLetter(died, func(older, newer header.Death) bool { asked++; return older.Queue != newer.Queue || asked%3 > 0 })
		if asked >= len(list) {
			t.Errorf("asked about %d pairs of %d deaths", asked, len(list))
		}
		dec := Decoder{Source: "shop", VHost: "/"}
		late := wiretest.Delivery(died)
		late.Exchange, late.Headers = dec.Topology.Late(), amqp.Table{"x-death": append(list, wiretest.Death(dec.Topology.Index(), "expired", exchange, key))}
		if event := dec.Tapped(late, time.Unix(1_700_000_000, 0), 1); event.Envelope.Headers["x-death"] != nil {
			t.Error("a late copy keeps the deaths in queues of Watership's")
		}
	})
}
