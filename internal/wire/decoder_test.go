package wire

import (
	"encoding/json"
	"errors"
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

func TestWhenAMessageWasPublished(t *testing.T) {
	received := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	for name, test := range map[string]struct {
		brokers any
		own     time.Time
		want    time.Time
		source  schemas.TimeSource
	}{
		"nobody says":               {nil, time.Time{}, received, TimeOfIngest},
		"the broker says":           {int64(1777863720123), time.Unix(1777863000, 0), time.UnixMilli(1777863720123), TimeOfBroker},
		"the publisher says":        {nil, time.Unix(1777863000, 0), time.Unix(1777863000, 0), timeOfPublisher},
		"a clock minutes fast":      {nil, received.Add(4 * time.Minute), received.Add(4 * time.Minute), timeOfPublisher},
		"the future":                {nil, received.Add(5 * time.Minute), received, TimeOfIngest},
		"a broker's future":         {received.Add(time.Hour).UnixMilli(), time.Time{}, received, TimeOfIngest},
		"days ago":                  {nil, received.Add(-6 * 24 * time.Hour), received.Add(-6 * 24 * time.Hour), timeOfPublisher},
		"a year ago":                {nil, received.AddDate(-1, 0, 0), received, TimeOfIngest},
		"a broker's 2001":           {time.Date(2001, 9, 9, 0, 0, 0, 0, time.UTC).UnixMilli(), time.Time{}, received, TimeOfIngest},
		"year 0":                    {nil, time.Unix(-62167219200, 0), received, TimeOfIngest},
		"the end of time":           {nil, time.Unix(1<<63-1, 0), received, TimeOfIngest},
		"1970":                      {int64(1), time.Unix(0, 0), received, TimeOfIngest},
		"a broker's time as text":   {"1777863720123", time.Time{}, received, TimeOfIngest},
		"a broker's absurd time":    {int64(1<<63 - 1), time.Time{}, received, TimeOfIngest},
		"a broker's time, negative": {int64(-1), time.Unix(1777863000, 0), time.Unix(1777863000, 0), timeOfPublisher},
	} {
		t.Run(name, func(t *testing.T) {
			d := amqp.Delivery{Exchange: "shop", Timestamp: test.own}
			if test.brokers != nil {
				d.Headers = amqp.Table{header.BrokerTime: test.brokers}
			}
			event := Decoder{}.Tapped(d, received, 1)
			if !event.Time.Equal(test.want) || event.TimeSource != test.source {
				t.Errorf("got %v by %s, want %v by %s", event.Time, event.TimeSource, test.want, test.source)
			}
		})
	}
}

// The time of a replay is the time of its own publish, not of the message that it
// repeats.
func TestWhenAReplayWasPublished(t *testing.T) {
	first := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	original := schemas.Envelope{
		Exchange: "shop", Properties: schemas.Properties{MessageID: "m", Timestamp: first},
		Headers: amqp.Table{header.BrokerTime: first.UnixMilli()},
	}
	mark := schemas.State{Fingerprint: original.Fingerprint(), Replay: "job", ReplayOf: "event"}
	sent := DefaultFrameMax.WrapForExchange(original, mark, "guest")
	again := first.Add(time.Hour)
	for name, test := range map[string]struct {
		set    any // timestamp_in_ms by the broker
		want   time.Time
		source schemas.TimeSource
	}{
		"a broker that leaves the times": {sent.Headers[header.BrokerTime], again.Add(time.Minute), TimeOfIngest},
		"a broker that sets them":        {again.UnixMilli(), again, TimeOfBroker},
	} {
		sent.Headers[header.BrokerTime] = test.set
		d := amqp.Delivery{Exchange: "shop", Headers: sent.Headers, MessageId: sent.MessageId, Timestamp: sent.Timestamp}
		event := Decoder{}.Tapped(d, again.Add(time.Minute), 1)
		if event.Replay != "job" || !event.Time.Equal(test.want) || event.TimeSource != test.source {
			t.Errorf("%s: got %v by %s of job %q", name, event.Time, event.TimeSource, event.Replay)
		}
	}
}

// The limit of the queue may have changed since.
func TestALateCopyHasItsOrigin(t *testing.T) {
	for _, limit := range []int64{0, 20} {
		testLateCopy(t, Decoder{Source: "s", Topology: schemas.Topology{IndexLimit: limit}}, schemas.Topology{}.Index())
		testLateCopy(t, Decoder{Source: "s", Topology: schemas.Topology{IndexLimit: limit}}, schemas.Topology{IndexLimit: 20}.Index())
		testLateCopy(t, Decoder{Source: "s", Topology: schemas.Topology{IndexLimit: limit, IndexPartitions: 3}}, schemas.Topology{IndexLimit: limit}.Index()+".2of3")
		testLateCopy(t, Decoder{Source: "s", Topology: schemas.Topology{IndexLimit: limit}}, schemas.Topology{}.Index()+".2of3.headers.tenant")
	}
}

func testLateCopy(t *testing.T, dec Decoder, queue string) {
	t.Helper()
	intime := schemas.Envelope{Exchange: "shop", RoutingKey: "k", Properties: schemas.Properties{MessageID: "m", Expiration: "100"}, Body: []byte("x")}
	late := wiretest.Delivery(intime)
	late.Exchange, late.Expiration = dec.Topology.Late(), ""
	late.Headers = amqp.Table{"x-first-death-queue": queue, "x-death": []any{
		amqp.Table{"queue": "another", "exchange": "wrong", "routing-keys": []any{"wrong"}, "count": int64(1)},
		amqp.Table{
			"queue": queue, "exchange": "shop", "routing-keys": []any{"k"}, "reason": "expired",
			"original-expiration": "100", "count": int64(1),
		},
	}}
	event := dec.Tapped(late, time.Now(), 1)
	wiretest.WantEnvelope(t, event.Envelope, intime)
	if want := dec.Tapped(wiretest.Delivery(intime), time.Now(), 2); event.EventID != want.EventID {
		t.Errorf("got id %s, in time it is %s", event.EventID, want.EventID)
	}
}

func TestARedeliveryIsNotCountedAsTheMessages(t *testing.T) {
	e := schemas.Envelope{Exchange: "shop", Headers: amqp.Table{"tenant": "acme", "x-custom": "mine"}}
	d := wiretest.Delivery(e)
	d.Redelivered = true
	d.Headers = amqp.Table{"tenant": "acme", "x-custom": "mine", "x-delivery-count": int64(1), "x-acquired-count": int64(2)}
	wiretest.WantEnvelope(t, Decoder{}.Tapped(d, time.Now(), 1).Envelope, e)
}

func TestWhatIsNoEventIsKeptWhole(t *testing.T) {
	dec := Decoder{Source: "s"}
	received := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	for name, d := range map[string]amqp.Delivery{
		"another exchange":    {Exchange: "", RoutingKey: dec.Topology.Log(), Headers: amqp.Table{headerEventID: "01K"}},
		"no id":               {Exchange: dec.Topology.Events(), RoutingKey: "handled", Headers: amqp.Table{headerVersion: int64(1)}},
		"an id too long":      {Exchange: dec.Topology.Events(), RoutingKey: "handled", Headers: amqp.Table{headerEventID: strings.Repeat("x", 513)}},
		"an id that is bytes": {Exchange: dec.Topology.Events(), RoutingKey: "handled", Headers: amqp.Table{headerEventID: "\xff"}},
		"no fingerprint":      {Exchange: dec.Topology.Events(), RoutingKey: "handled", Headers: amqp.Table{headerVersion: int64(1), headerEventID: "01K"}},
		"no text of one":      {Exchange: dec.Topology.Events(), RoutingKey: "handled", Headers: amqp.Table{headerVersion: int64(1), headerEventID: "01K", headerFingerprint: "\xff"}},
		"no action":           {Exchange: dec.Topology.Events(), Headers: amqp.Table{headerVersion: int64(1), headerEventID: "01K", headerFingerprint: "v1:"}},
		"a newer version":     {Exchange: dec.Topology.Events(), RoutingKey: "handled", Headers: amqp.Table{headerVersion: int64(2), headerEventID: "01K"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := dec.Lifecycle(d, received, 5)
			if err == nil {
				t.Fatal("it is received for an event")
			}
			event := dec.Unreadable(d, received, 5, err)
			wiretest.WantEnvelope(t, event.Envelope, schemas.FromDelivery(d))
			if event.Action != schemas.Quarantined || event.Failure.Message != err.Error() || event.Sequence != 5 || !event.Time.Equal(received) {
				t.Errorf("got %+v", event)
			}
			if !isID(event.EventID) {
				t.Errorf("its id is no id: %q", event.EventID)
			}
		})
	}
}

func TestAnEventAlwaysHasATime(t *testing.T) {
	dec, received := Decoder{}, time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	for said, want := range map[string]time.Time{
		"": received, "tomorrow": received, "2026-05-04T03:02:00.5Z": received.Add(-500 * time.Millisecond), "9999-12-31T23:59:59-09:00": received,
	} {
		d := amqp.Delivery{Exchange: dec.Topology.Events(), RoutingKey: "handled", Headers: amqp.Table{headerEventID: "01K", headerTime: said, headerFingerprint: "v1:"}}
		event, err := dec.Lifecycle(d, received, 1)
		if err != nil || !event.Time.Equal(want) {
			t.Errorf("%q: got %v, %v", said, event.Time, err)
		}
	}
}

func TestAQuarantinedEventKeepsItsID(t *testing.T) {
	event := Decoder{Source: "s"}.Tapped(wiretest.Delivery(wiretest.EveryEnvelope()), time.Now(), 1)
	refused := event.Quarantine("too many fields")
	if refused.EventID != event.EventID || refused.QuarantinedAction != schemas.Published || !refused.IDFromContent() || refused.Action.Stream() != schemas.Failures {
		t.Errorf("got %+v", refused)
	}
	parsed := wiretest.ThroughDocument(t, refused)
	wiretest.WantEnvelope(t, parsed.Envelope, event.Envelope)
	if parsed.Failure.Message != "too many fields" || parsed.QuarantinedAction != schemas.Published {
		t.Errorf("got %+v", parsed)
	}
}

// A refused event comes out of its quarantined document as it was, with its own failure,
// and its document is found by its action.
func TestARefusedEventIsKeptWhole(t *testing.T) {
	want := wiretest.FailedEvent([]byte{0, 1, 0xff})
	quarantined := want.Quarantine("too many fields")
	var document struct {
		Event struct{ Action, Outcome string }
		Error struct{ Message string }
	}
	if err := json.Unmarshal(schemas.DocumentFormat{}.Append(nil, quarantined), &document); err != nil {
		t.Fatal(err)
	}
	if document.Event.Action != "retry_scheduled" || document.Event.Outcome != "failure" || document.Error.Message != "too many fields" {
		t.Errorf("it is searched as %+v", document)
	}
	parsed := wiretest.ThroughDocument(t, quarantined)
	if parsed.Action != schemas.Quarantined || parsed.RecordedAction() != schemas.RetryScheduled {
		t.Errorf("it is read as %s of %s", parsed.Action, parsed.RecordedAction())
	}
	got, ok := parsed.Refused()
	if diff := cmp.Diff(want, got, wiretest.Bitwise(), cmpopts.IgnoreUnexported(schemas.Event{})); diff != "" || !ok {
		t.Errorf("%t: it changed in quarantine (-want +got):\n%s", ok, diff)
	}
	if _, ok := want.Refused(); ok {
		t.Error("an event that is stored was refused")
	}
}

// Documents of before have the action quarantined, and not the failure of the event.
func TestAnOldQuarantinedDocumentIsRead(t *testing.T) {
	got, err := schemas.ParseDocument([]byte(`{"@timestamp":"2026-05-04T03:02:01Z","event":{"id":"01K","action":"quarantined","sequence":7},
		"error":{"type":"quarantined","message":"too many fields"},"watership":{"version":1,"queue":"orders","quarantined_action":"poisoned"},
		"amqp":{"exchange":"shop"},"body":{"raw":"aGVsbG8="}}`))
	if err != nil {
		t.Fatal(err)
	}
	refused, ok := got.Refused()
	if got.Action != schemas.Quarantined || !ok || refused.Action != schemas.Poisoned || refused.Failure != (schemas.Failure{}) || string(refused.Envelope.Body) != "hello" || refused.EventID != "01K" {
		t.Errorf("%t: got %+v", ok, refused)
	}
}

// A message in the log that is no event claims an action, as anyone can: it is not found by
// it, and is never stored as such an event.
func TestAnUnreadableEventIsNotFoundByItsAction(t *testing.T) {
	dec := Decoder{Source: "s"}
	d := wiretest.Delivery(wiretest.EveryEnvelope())
	d.Exchange, d.RoutingKey = dec.Topology.Events(), "discarded"
	event := wiretest.ThroughDocument(t, dec.Unreadable(d, time.Now(), 5, errors.New("not signed")))
	if _, ok := event.Refused(); ok {
		t.Error("it is an event that the store refused")
	}
	if source := string(schemas.DocumentFormat{}.Append(nil, event)); event.QuarantinedAction != schemas.Discarded || !strings.Contains(source, `"action":"quarantined"`) {
		t.Errorf("it is searched as %s", source)
	}
}

func TestWhatNoEventFromOutsideMayHave(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	good := Decoder{Source: "s"}.Tapped(wiretest.Delivery(wiretest.EveryEnvelope()), now, now.UnixMicro())
	if err := good.Check(now); err != nil {
		t.Errorf("an event of Watership: %v", err)
	}
	for name, spoil := range map[string]func(*schemas.Event){
		"no id":             func(e *schemas.Event) { e.EventID = "" },
		"no fingerprint":    func(e *schemas.Event) { e.Fingerprint = "" },
		"no action":         func(e *schemas.Event) { e.Action = "" },
		"no time":           func(e *schemas.Event) { e.Time = time.Time{} },
		"a day ahead":       func(e *schemas.Event) { e.Sequence = now.Add(24*time.Hour + time.Second).UnixMicro() },
		"the last sequence": func(e *schemas.Event) { e.Sequence = 1<<63 - 1 },
		"one below zero":    func(e *schemas.Event) { e.Sequence = -1 },
	} {
		e := good
		spoil(&e)
		if e.Check(now) == nil {
			t.Errorf("%s: it is no error", name)
		}
	}
}

func TestNewerVersionsAreNamed(t *testing.T) {
	_, err := Decoder{}.Lifecycle(amqp.Delivery{
		Exchange: schemas.Topology{}.Events(), Headers: amqp.Table{headerVersion: int64(9)},
	}, time.Now(), 1)
	var newer *NewerVersionError
	if !errors.As(err, &newer) || newer.Version != 9 || !strings.Contains(err.Error(), "watership-v 9") {
		t.Errorf("got %v", err)
	}
}
