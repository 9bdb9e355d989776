package indexer

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// TestHardCases sends messages that break other indexers, each between two ordinary ones:
// each is stored completely, searchable or with the reason why not, can be replayed, and
// does not delay others.
func TestHardCases(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		t.Parallel()
		h := &hardCases{system: newSystem(t, b), store: newStore(t, b)}
		if _, err := h.store.CreateJob(patient(t), "job", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		run := h.start(h.store, func(cfg *Config) { cfg.Format.Labels = []string{"tenant", "a.b", "a_b"} })
		for name, body := range h.bodies() {
			t.Run(name, func(t *testing.T) { h.test(t, h.with(body, nil), schemas.Published) })
		}
		for name, headers := range h.headers() {
			t.Run(name, func(t *testing.T) { h.test(t, h.with([]byte("x"), headers), schemas.Published) })
		}
		t.Run("a header named like each of ours", h.oursCopied)
		t.Run("a time to live that ends while the indexer lags", h.late)
		t.Run("another's user_id", h.anothersUser)
		run.stop()
		if left := h.Len(t, h.topology.Index()) + h.Len(t, h.topology.IndexLate()); left > 0 {
			t.Errorf("%d messages are not acknowledged", left)
		}
		if h.log.Count("quarantined its raw envelope") > 0 {
			t.Errorf("a document was refused:\n%s", h.log)
		}
	})
}

type hardCases struct {
	*system
	store     testStore
	published int
	seen      int64 // sequence of the newest event that was read
}

func (h *hardCases) with(body []byte, headers amqp091.Table) schemas.Envelope {
	h.published++
	e := h.message("hard", h.published)
	e.Body, e.Headers = body, headers
	return e
}

func (h *hardCases) bodies() map[string][]byte {
	nested := func(open, end string, depth int) []byte {
		return []byte(strings.Repeat(open, depth) + "1" + strings.Repeat(end, depth))
	}
	manyKeys := []byte(`{"k":0`)
	for n := range 5000 {
		manyKeys = fmt.Appendf(manyKeys, `,"k%d":"value %d"`, n, n)
	}
	size := 2 // MiB
	if os.Getenv("WATERSHIP_TEST_SOAK") != "" {
		size = 16 // as much as RabbitMQ 4 accepts
	}
	return map[string][]byte{
		"MiBs of text":           bytes.Repeat([]byte("sixteen byte é! "), size<<16)[:size<<20],
		"MiBs of bytes":          bytes.Repeat([]byte{0xff, 0, '"', '\\'}, size<<18),
		"an empty body":          nil,
		"a body of a NUL":        {0},
		"invalid UTF-8":          []byte("caf\xe9 \xf0\x9f"),
		"JSON 1,000 deep":        nested(`{"a":`, "}", 1000),
		"JSON arrays 1,000 deep": nested(`[`, "]", 1000),
		"JSON just deep enough":  nested(`{"a":`, "}", 20),
		"JSON just too deep":     nested(`{"a":`, "}", 21),
		"arrays in an object":    []byte(`{"a":` + string(nested(`[`, "]", 19)) + "}"),
		"a duplicate key":        []byte(`{"a":1,"a":2}`),
		"an escaped duplicate":   []byte(`{"a":1,"\u0061":2}`),
		"lone surrogate escapes": []byte(`{"a\ud800":"\udfff","b":"\ud83d\ude00"}`),
		"a NUL in a key":         []byte(`{"a\u0000b":1}`),
		"dots and empty keys":    []byte(`{"":{"":1,".":2,"..":{"a.b":3}},"a.b":{"c":1},"a":{"b.c":2},".a":1,"a.":2}`),
		"an array":               []byte(`[1,{"a":2}]`),
		"a scalar":               []byte(`"text"`),
		"long values":            []byte(`{"a":"` + strings.Repeat("x", 40_000) + `","b":"` + strings.Repeat("é", 16_000) + `"}`),
		"a long key":             []byte(`{"` + strings.Repeat("k", 32_763) + `":true}`),
		"numbers":                []byte(`{"a":1e400,"b":-0,"c":` + strings.Repeat("9", 2000) + `,"d":0.1E-999999999}`),
		"5,000 keys":             manyKeys,
		"lines":                  []byte("{\n\"a\":\r\n 1}\n"),
		"a line separator":       []byte("{\"a\":\"\u2028\u0085\"}"),
	}
}

func (h *hardCases) headers() map[string]amqp091.Table {
	many := amqp091.Table{}
	for n := range 5000 {
		many[fmt.Sprintf("header-%d", n)] = int32(n)
	}
	deep := amqp091.Table{"end": "x"}
	for range 30 {
		deep = amqp091.Table{"a": deep}
	}
	return map[string]amqp091.Table{
		"5,000 headers":             many,
		"a 40 KB header value":      {"long": strings.Repeat("x", 40<<10), "invalid": strings.Repeat("\xff", 40<<10)},
		"headers 30 deep":           deep,
		"invalid UTF-8 in headers":  {"\xff": "\xfe", "\xfe": "\xff", "\ufffd": "x", "list": []any{"\xff"}},
		"a NUL in a header key":     {"a\x00b": "x", "nested": amqp091.Table{"\x00": "y"}},
		"dots and empty names":      {"": "x", ".": "y", "..": amqp091.Table{"": "z", "a.b": "c"}, "a.b": "c", "a": amqp091.Table{"b": "d"}, "a_b": "e"},
		"CC and BCC":                {"CC": []any{"copy", "\xff"}},
		"times of year 0 and later": {"year 0": time.Unix(-62167219200, 0), "year 292277026596": time.Unix(1<<63-1, 0), "tenant": time.Unix(1<<62, 0)},
		"headers like the broker's": {"x-death": "mine", deliveryCount: "three", "x-first-death-queue": int64(1)},
		"a label of every type":     {"tenant": []any{"x"}, "a.b": amqp091.Table{"a": "b"}},
	}
}

const deliveryCount = "x-delivery-count"

// test publishes a message between two ordinary ones and wants all three.
func (h *hardCases) test(t *testing.T, hard schemas.Envelope, want schemas.Action) schemas.Event {
	t.Helper()
	h.published += 2
	before, after := h.message("before", h.published), h.message("after", h.published)
	h.publish(before, h.sent(hard), after)
	var got schemas.Event
	for _, event := range h.newest(t, 3) {
		switch event.Envelope.Properties.MessageID {
		case before.Properties.MessageID, after.Properties.MessageID:
		default:
			got = event
		}
	}
	if got.Action != want {
		t.Errorf("it is %s, not %s: %s", got.Action, want, got.Failure.Message)
	}
	if got.Action == schemas.Quarantined && got.Failure.Message == "" {
		t.Error("it is quarantined without a reason")
	}
	if _, kept := got.Envelope.Headers[deliveryCount]; !kept { // a quorum queue replaces it if the store was busy and the message came again
		hard.Headers = maps.Clone(hard.Headers)
		delete(hard.Headers, deliveryCount)
	}
	if diff := diff(hard, got.Envelope); diff != "" {
		t.Errorf("it cannot be restored (-want +got):\n%.4000s", diff)
	}
	h.replay(t, got.Envelope)
	return got
}

// replay sends a stored message to its exchange, as a job does, and wants the tap to
// receive the same message, without headers that RabbitMQ reserves for itself.
func (h *hardCases) replay(t *testing.T, stored schemas.Envelope) {
	t.Helper()
	again := wire.DefaultFrameMax.WrapForExchange(stored, schemas.State{Fingerprint: stored.Fingerprint(), Replay: "job"}, "guest")
	h.send(rabbit.Message{Exchange: stored.Exchange, RoutingKey: stored.RoutingKey, Publishing: again})
	h.published++
	replayed := h.newest(t, 1)[0]
	if replayed.Replay != "job" {
		t.Errorf("its replay is not marked as one: %q", replayed.Replay)
	}
	stored.Headers = stored.PublisherHeaders()
	stored.Properties.UserID = "" // which RabbitMQ guarantees, so that a replay by another login has none
	if diff := diff(stored, replayed.Envelope); diff != "" {
		t.Errorf("its replay is another message (-want +got):\n%.4000s", diff)
	}
}

// sent adds the BCC header, which RabbitMQ removes.
func (h *hardCases) sent(e schemas.Envelope) schemas.Envelope {
	if _, copies := e.Headers["CC"]; copies {
		e.Headers = amqp091.Table{"CC": e.Headers["CC"], "BCC": []any{"blind"}}
	}
	return e
}

// newest waits for all published messages and returns the last n events.
func (h *hardCases) newest(t *testing.T, n int) []schemas.Event {
	t.Helper()
	h.counted(h.store, h.published)
	sel := h.selection("")
	sel.After = eventstore.Cursor{Sequence: h.seen, EventID: "\U0010ffff"}
	var list []schemas.Event
	for event, err := range h.store.Events(patient(t), sel) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, event)
	}
	if len(list) < n {
		t.Fatalf("%d new events, want %d", len(list), n)
	}
	h.seen = list[len(list)-1].Sequence
	return list[len(list)-n:]
}

func (h *hardCases) oursCopied(t *testing.T) {
	for i, name := range ourHeaders() {
		e := h.with([]byte("x"), amqp091.Table{"tenant": "acme", name: fmt.Sprint("copied ", i)})
		h.publish(e)
	}
	for i, event := range h.newest(t, len(ourHeaders())) {
		if len(event.Envelope.Headers) != 1 || event.Action != schemas.Published || event.Replay != "" || event.Queue != "" {
			t.Errorf("%s: it is decoded as %+v", ourHeaders()[i], event)
		}
	}
}

// ourHeaders are the names of those that mean something to us.
func ourHeaders() []string {
	e := schemas.Envelope{
		Headers:    amqp091.Table{"CC": []any{"x"}},
		Properties: schemas.Properties{Expiration: "1", UserID: "u", Priority: 1, DeliveryMode: 1},
	}
	at := time.Unix(1700000000, 0)
	state := schemas.State{Fingerprint: "f", Message: "m", EventID: "e", Delay: time.Second, Parent: "p", Replay: "r", ReplayOf: "o"}.
		Failed(at, time.Second, "q", schemas.Failure{Message: "m", Type: "t", Class: "c", Stack: "s"})
	names := []string{"watership-wrapped", "watership-unknown"}
	for name := range wire.DefaultFrameMax.WrapWithoutBody(e, state, wire.OmittedBody{Size: len(e.Body), In: schemas.BodyInPublished}).Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// late publishes before an indexer runs.
func (h *hardCases) late(t *testing.T) {
	other := &hardCases{system: newSystem(t, h.Broker), store: h.store}
	e := other.with([]byte("late"), amqp091.Table{"tenant": "acme"})
	e.Properties.Expiration = "10"
	other.publish(e)
	rabbittest.Eventually(t, "the copy is late", func() bool { return other.Len(t, other.topology.IndexLate()) == 1 })
	run := other.start(other.store, nil)
	got := other.finish(other.store, 1, run)
	if diff := diff(e, got[0].Envelope); diff != "" {
		t.Errorf("it cannot be restored (-want +got):\n%s", diff)
	}
}

// anothersUser publishes as a user whose name we may not use.
func (h *hardCases) anothersUser(t *testing.T) {
	if h.Own {
		t.Skip("the embedded broker has one user")
	}
	other := h.Login(t, rabbittest.Rights{Configure: ".*", Write: ".*", Read: ".*"})
	conn := h.open(other.URL, false)
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	defer publisher.Close()
	e := h.with([]byte("x"), nil)
	e.Properties.UserID = other.User(t)
	if err := publisher.Publish(patient(t), rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: e.Publishing()}); err != nil {
		t.Fatal(err)
	}
	if diff := diff(e, h.newest(t, 1)[0].Envelope); diff != "" {
		t.Errorf("it cannot be restored (-want +got):\n%s", diff)
	}
	h.send(rabbit.Message{RoutingKey: h.topology.Poison(), Publishing: wire.DefaultFrameMax.Wrap(e, schemas.State{})})
	e.Properties.UserID = "" // which a replay could only claim in a header
	h.replay(t, e)
}
