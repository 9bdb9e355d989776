package cli

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

func everyType(e *schemas.Event) {
	e.Envelope.Body = []byte{0xff, 0, '\n', 1}
	e.Envelope.Headers = amqp.Table{
		"int8": int8(-1), "int64": int64(1) << 60, "raw": []byte{0xff}, "none": nil, "when": time.Unix(1700000000, 0),
		"price": amqp.Decimal{Scale: 2, Value: 1999}, "deep": amqp.Table{"list": []any{"a", int32(2)}}, "bad\xff": "\xff",
	}
	e.Envelope.Properties = schemas.Properties{
		MessageID: "m", CorrelationID: "c", ReplyTo: "r", Type: "t", AppID: "a", Expiration: "86400000", Priority: 3,
		ContentType: "x", ContentEncoding: "y", DeliveryMode: 2, Timestamp: time.Unix(1700000000, 0),
	}
}

func TestExportAndImportLoseNothing(t *testing.T) { inEitherStore(t, testExportAndImport) }

func testExportAndImport(t *testing.T, seed seeder) {
	from, to := seed(t), seed(t)
	from.keep(t, from.event(1, schemas.Published, everyType), from.event(2, schemas.Poisoned, poisonedAt("orders", "x"), instance("i")), from.event(3, schemas.Handled))
	exported := from.must(t, "export", "*")
	if n := strings.Count(exported, "\n"); n != 3 {
		t.Fatalf("%d lines", n)
	}
	file := servertest.WriteFile(t, "events.ndjson", exported)
	for _, want := range []string{"created 3 events, 0 existed already\n", "created 0 events, 3 existed already\n"} {
		if got := to.must(t, "import", file); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if diff := cmp.Diff(exported, to.must(t, "export", "*")); diff != "" {
		t.Errorf("(-exported +exported again):\n%s", diff)
	}
	if n := strings.Count(from.must(t, "export", "action: handled"), "\n"); n != 1 {
		t.Errorf("a query exports %d events", n)
	}
	bad := servertest.WriteFile(t, "bad.ndjson", exported+"{\"no\": \"document\"}\n")
	if r := seed(t).call(t, "import", bad); r.Code != exitFailed || !strings.Contains(r.Err, "line 4") || !strings.Contains(r.Out, "created 3") {
		t.Errorf("%+v", r)
	}
	first, _, _ := strings.Cut(exported, "\n")
	forged := servertest.WriteFile(t, "forged.ndjson", regexp.MustCompile(`"sequence":\d+`).ReplaceAllString(first, `"sequence":9223372036854775807`))
	if r := seed(t).call(t, "import", forged); r.Code != exitFailed || !strings.Contains(r.Err, "a day ahead") || !strings.Contains(r.Out, "created 0") {
		t.Errorf("an event from the end of time: %+v", r)
	}
}

// Before the first event is in the store, the import says that the store will remove it.
func TestImportOfOldEvents(t *testing.T) {
	t.Parallel()
	from := newSeeded(t)
	old := func(e *schemas.Event) { e.Time = time.Now().Add(-2 * time.Hour).UTC().Truncate(time.Millisecond) }
	from.keep(t, from.event(1, schemas.Published, old), from.event(2, schemas.Handled, old))
	file := servertest.WriteFile(t, "events.ndjson", from.must(t, "export", "*"))
	for retention, said := range map[string]bool{"1h": true, "3h": false, "0": false} {
		r := newSeeded(t, "WATERSHIP_STORE_RETENTION_TRAFFIC="+retention).call(t, "import", file)
		if r.Code != exitOK || r.Out != "created 2 events, 0 existed already\n" || strings.Count(r.Err, "events are older than store.retention.traffic") != strings.Count(fmt.Sprint(said), "true") {
			t.Errorf("retention %s: %+v", retention, r)
		}
	}
}

// What was exported is published again as it was.
func TestPublishEnvelopes(t *testing.T) {
	p := servertest.Newest(t)
	broker, a := p.Broker, seedOn(p)(t)
	queue := broker.Queue(t, nil)
	e := a.event(1, schemas.Published, everyType)
	e.Envelope.Exchange, e.Envelope.RoutingKey = "", queue
	e.Envelope.Properties.UserID = "somebody"
	a.keep(t, e)
	file := servertest.WriteFile(t, "events.ndjson", a.must(t, "export", "*"))
	if got := a.must(t, "publish", "--ndjson", file, "--count", "2"); got != "published 2 messages\n" {
		t.Error(got)
	}
	e.Envelope.Properties.UserID = ""
	for _, delivery := range broker.Take(t, queue, 2) {
		if diff := cmp.Diff(e.Envelope, schemas.FromDelivery(delivery), servertest.SameSecond()); diff != "" {
			t.Errorf("(-exported +published):\n%s", diff)
		}
	}
}

func TestPublishManyAtARate(t *testing.T) {
	p := servertest.Newest(t)
	broker, a := p.Broker, seedOn(p)(t)
	queue := broker.Queue(t, nil)
	began := time.Now()
	got := call(t.Context(), strings.NewReader("hello"), a.environ, "publish", "--key", queue, "--count", "30", "--rate", "20")
	if got.Out != "published 30 messages\n" || time.Since(began) < 1200*time.Millisecond {
		t.Errorf("%+v in %s", got, time.Since(began))
	}
	if n := broker.Len(t, queue); n != 30 {
		t.Errorf("the queue has %d messages", n)
	}
	if r := a.call(t, "publish", "--key", queue+".nobody"); r.Code != exitFailed || !strings.Contains(r.Err, "queue") {
		t.Errorf("published to nowhere: %+v", r)
	}
	got = call(t.Context(), strings.NewReader("x"), a.environ, "publish", "--key", queue, "--count", "2500")
	if got.Out != fmt.Sprintf("published %d messages\n", 2500) {
		t.Errorf("%+v", got)
	}
}
