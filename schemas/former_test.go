package schemas

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"
)

// formerDocuments has the documents of formerEvents in the form of version 1, one a line.
const formerDocuments = "../eventstore/storetest/testdata/documents-v1.ndjson"

// formerEvents are events with every type of header and property, every kind of body and
// most actions.
func formerEvents() []Event {
	bodies := [][]byte{
		nil, []byte("no stock of violins"), []byte(`{"order":42,"lines":[{"sku":"a-1","price":2.50}],"name":"Ägir"}`),
		[]byte("{\n\t\"order\": 43,\r\n\t\"big\": 12345678901234567890.10\n}"),
		{0, 1, 0xff},
		[]byte(`{"a":1,"a":2}`), []byte("[1, 2]"),
	}
	var events []Event
	for i, body := range bodies {
		event := failedEvent(body)
		event.EventID, event.Sequence = string(rune('a'+i)), int64(1000+i)
		events = append(events, event)
	}
	events[1].Action, events[2].Action, events[3].Action = Poisoned, Handled, Replayed
	published := goldenEvent()
	published.State = State{Version: WireVersion, EventID: "published", Fingerprint: published.Envelope.Fingerprint()}
	published.Action, published.TimeSource, published.Time = Published, timeOfPublisher, events[0].Time
	bare := Event{State: State{Version: WireVersion, EventID: "bare", Time: events[0].Time}, Action: Published, Sequence: 2000, Source: "test"}
	text := bare
	text.EventID, text.Envelope.Headers = "texts", amqp.Table{"tenant": "acme", "a.b": "dotted", "": "no name"}
	elsewhere := failedEvent(nil)
	elsewhere.EventID, elsewhere.BodyIn, elsewhere.BodySize = "elsewhere", BodyInPublished, 1<<20
	quarantined := failedEvent([]byte(`{"order":44}`))
	quarantined.EventID, quarantined.Action, quarantined.QuarantinedAction = "quarantined", Quarantined, Poisoned
	quarantined.QuarantinedFailure = Failure{Message: "the handler's own"}
	return append(events, published, bare, text, elsewhere, quarantined)
}

// Documents of version 1 are still read, exactly.
func TestFormerDocumentsAreRead(t *testing.T) {
	kept, err := os.ReadFile(formerDocuments)
	if err != nil {
		t.Fatal(err)
	}
	lines, events := bytes.Split(bytes.TrimSpace(kept), []byte("\n")), formerEvents()
	if len(lines) != len(events) {
		t.Fatalf("%d documents of %d events", len(lines), len(events))
	}
	for i, want := range events {
		got, err := ParseDocument(lines[i])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, bitwise(), cmpopts.IgnoreUnexported(Event{})); diff != "" {
			t.Errorf("event %s changed on its way through its former document (-want +got):\n%s", want.EventID, diff)
		}
		again, err := ParseDocument(DocumentFormat{}.Append(nil, got))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, again, bitwise(), cmpopts.IgnoreUnexported(Event{})); diff != "" {
			t.Errorf("event %s changed on its way through both forms (-want +got):\n%s", want.EventID, diff)
		}
	}
}

// An earlier form of version 2 had another name for the time of the ingest.
func TestFormerTimeSource(t *testing.T) {
	event := goldenEvent()
	event.TimeSource = TimeOfIngest
	document := DocumentFormat{}.Append(nil, event)
	former := bytes.Replace(document, []byte(`"time_source":"ingest"`), []byte(`"time_source":"taken"`), 1)
	if bytes.Equal(former, document) {
		t.Fatal("the document has no time source")
	}
	if got, err := ParseDocument(former); err != nil || got.TimeSource != TimeOfIngest {
		t.Errorf("%q, %v", got.TimeSource, err)
	}
}
