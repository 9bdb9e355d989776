package transfer

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

func publisherOf(t *testing.T, b rabbittest.Broker) *rabbit.Publisher {
	t.Helper()
	conn, err := rabbit.Open(rabbit.Config{URL: b.URL, Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	t.Cleanup(func() { _ = publisher.Close() })
	return publisher
}

// messages yields n messages for a queue, and then an error, if there is one.
func messages(queue string, n int, err error) iter.Seq2[rabbit.Message, error] {
	return func(yield func(rabbit.Message, error) bool) {
		for i := range n {
			if !yield(NewMessage(schemas.Envelope{RoutingKey: queue, Body: fmt.Append(nil, i)}), nil) {
				return
			}
		}
		if err != nil {
			yield(rabbit.Message{}, err)
		}
	}
}

func TestConfirmedMessagesAreCounted(t *testing.T) {
	b := rabbittest.Embedded(t)
	queue, told := b.Queue(t, nil), 0
	n, err := Publish(t.Context(), publisherOf(t, b), messages(queue, inFlight+20, nil), 0, func(n int) { told = n })
	if n != inFlight+20 || told != n || err != nil || b.Len(t, queue) != n {
		t.Errorf("%d are confirmed, %d were told, %d are in the queue, %v", n, told, b.Len(t, queue), err)
	}
}

func TestMessagesArriveInTheirOrder(t *testing.T) {
	b := rabbittest.Embedded(t)
	queue := b.Queue(t, nil)
	if _, err := Publish(t.Context(), publisherOf(t, b), messages(queue, 20, nil), 0, func(int) {}); err != nil {
		t.Fatal(err)
	}
	for i, d := range b.Take(t, queue, 20) {
		if string(d.Body) != fmt.Sprint(i) {
			t.Errorf("message %d is %s", i, d.Body)
		}
	}
}

func TestMessagesBeforeAnErrorAreConfirmed(t *testing.T) {
	b, broken := rabbittest.Embedded(t), errors.New("line 4")
	queue := b.Queue(t, nil)
	n, err := Publish(t.Context(), publisherOf(t, b), messages(queue, 3, broken), 0, func(int) {})
	if n != 3 || !errors.Is(err, broken) || b.Len(t, queue) != 3 {
		t.Errorf("%d are confirmed, %v", n, err)
	}
}

func TestAMessageThatReachesNoQueueEndsThePublish(t *testing.T) {
	b := rabbittest.Embedded(t)
	n, err := Publish(t.Context(), publisherOf(t, b), messages("nobody", 3, nil), 0, func(int) {})
	var unroutable *rabbit.UnroutableError
	if n != 0 || !errors.As(err, &unroutable) {
		t.Errorf("%d are confirmed, %v", n, err)
	}
}

func TestANewMessageIsPersistent(t *testing.T) {
	if got := Complete(schemas.Envelope{Body: []byte("hello")}).Properties; got.DeliveryMode != amqp.Persistent || got.ContentType != "" {
		t.Errorf("%+v", got)
	}
}

func TestANewMessageOfJSONSaysSo(t *testing.T) {
	if got := Complete(schemas.Envelope{Body: []byte(`{"order":7}`)}).Properties.ContentType; got != "application/json" {
		t.Errorf("%q", got)
	}
	kept := Complete(schemas.Envelope{Body: []byte(`{}`), Properties: schemas.Properties{ContentType: "text/plain"}})
	if got := kept.Properties.ContentType; got != "text/plain" {
		t.Errorf("its own content type becomes %q", got)
	}
}

func TestTheUserOfAMessageIsTheLogin(t *testing.T) {
	for user, want := range map[string]string{"ann": "ann", "bob": "", "": ""} {
		if got := ForLogin(schemas.Envelope{Properties: schemas.Properties{UserID: user}}, "ann").Publishing.UserId; got != want {
			t.Errorf("%q becomes %q, want %q", user, got, want)
		}
	}
}

func TestExportedMessagesAreAsTheyWere(t *testing.T) {
	e := recorded(1)
	e.Envelope.Headers = amqp.Table{"n": int8(-1), "raw": []byte{0xff}, "none": nil, "price": amqp.Decimal{Scale: 2, Value: 1999}}
	for got, err := range Envelopes(export(e)) {
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e.Envelope, got); diff != "" {
			t.Errorf("(-exported +read):\n%s", diff)
		}
	}
}

func TestAnEventWithoutItsBodyIsNoMessage(t *testing.T) {
	handled := recorded(2)
	handled.Action, handled.BodyIn, handled.Envelope.Body = schemas.Handled, schemas.BodyInPublished, nil
	var read int
	for _, err := range Envelopes(export(recorded(1), handled, recorded(3))) {
		if read++; read == 2 && (err == nil || !strings.Contains(err.Error(), "event test:2 was recorded without its body")) {
			t.Errorf("%v", err)
		}
	}
	if read != 2 {
		t.Errorf("%d were read", read)
	}
}

func TestWholeNumbersOfJSONAreIntegers(t *testing.T) {
	got, err := Headers(map[string]any{"n": 7.0, "ratio": 0.5, "large": 1e300, "deep": map[string]any{"list": []any{1.0, "a"}}, "yes": true, "none": nil}, nil)
	want := amqp.Table{"n": int64(7), "ratio": 0.5, "large": 1e300, "deep": amqp.Table{"list": []any{int64(1), "a"}}, "yes": true, "none": nil}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func typedHeader(key, kind, value string) map[string]json.RawMessage {
	return map[string]json.RawMessage{"key": json.RawMessage(key), kind: json.RawMessage(value)}
}

func TestHeadersWithTypes(t *testing.T) {
	got, err := Headers(map[string]any{"tenant": "acme"}, []map[string]json.RawMessage{typedHeader(`"n"`, "int8", `-1`)})
	if diff := cmp.Diff(amqp.Table{"tenant": "acme", "n": int8(-1)}, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestHeadersThatAreRefused(t *testing.T) {
	long := strings.Repeat("x", maxName+1)
	for name, test := range map[string]struct {
		object map[string]any
		typed  []map[string]json.RawMessage
		want   string
	}{
		"given twice":         {map[string]any{"n": 1.0}, []map[string]json.RawMessage{typedHeader(`"n"`, "int8", `1`)}, `header "n" is given twice`},
		"an unknown type":     {nil, []map[string]json.RawMessage{typedHeader(`"n"`, "int7", `1`)}, `"n": `},
		"a long name":         {map[string]any{long: 1.0}, nil, "the name is longer than 255 bytes"},
		"a long name inside":  {map[string]any{"a": map[string]any{long: 1.0}}, nil, "the name is longer than 255 bytes"},
		"a long name in list": {map[string]any{"a": []any{map[string]any{long: 1.0}}}, nil, "the name is longer than 255 bytes"},
	} {
		if _, err := Headers(test.object, test.typed); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
