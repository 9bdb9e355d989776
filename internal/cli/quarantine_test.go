package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// unreadable returns event n of the log, which is not signed.
func (a seeded) unreadable(n int) schemas.Event {
	decoder := wire.Decoder{Source: a.source}
	d := amqp.Delivery{Exchange: decoder.Topology.Events(), RoutingKey: string(schemas.Poisoned), Body: []byte("forged")}
	e := decoder.Unreadable(d, happened.Add(time.Duration(n)*time.Second), int64(n), errors.New("not signed"))
	e.Ingested = happened
	return e
}

// quarantine stores four events in quarantine, and one that is not.
func (a seeded) quarantine(t *testing.T) {
	t.Helper()
	a.keep(t,
		a.event(1, schemas.Published, quarantined),
		a.event(2, schemas.Poisoned, poisonedAt("orders", "no stock of item 7"), quarantined),
		a.event(3, schemas.Poisoned, poisonedAt("mails", "no such table"), quarantined),
		a.unreadable(4),
		a.event(5, schemas.Poisoned, poisonedAt("orders", "no stock of item 9")))
}

func TestQuarantineList(t *testing.T) { inEitherStore(t, testQuarantineList) }

func testQuarantineList(t *testing.T, seed seeder) {
	a := seed(t)
	wantLines(t, a.must(t, "quarantine", "list"), "nothing found")
	a.quarantine(t)
	wantLines(t, a.must(t, "quarantine", "list", "not error.message: signed"), fmt.Sprintf(`
		TIME ACTION EXCHANGE QUEUE EVENT REASON
		2026-05-04 03:00:03.000 poisoned shop mails %[1]s:3 too many fields
		2026-05-04 03:00:02.000 poisoned shop orders %[1]s:2 too many fields
		2026-05-04 03:00:01.000 published shop %[1]s:1 too many fields`, a.source))
	var listed []map[string]any
	if err := json.Unmarshal([]byte(a.must(t, "quarantine", "list", "queue: orders", "-o", "json")), &listed); err != nil || len(listed) != 1 {
		t.Fatalf("got %v, %v", listed, err)
	}
	if diff := cmp.Diff(map[string]any{
		"event.id": a.source + ":2", "@timestamp": "2026-05-04T03:00:02.000000Z", "watership.quarantined_action": "poisoned",
		"messaging.destination.name": "shop", "watership.queue": "orders", "error.message": "too many fields",
	}, listed[0]); diff != "" {
		t.Errorf("as JSON (-want +got):\n%s", diff)
	}
	if lines := strings.Count(a.must(t, "quarantine", "list", "-n", "2", "-o", "ndjson"), "\n"); lines != 2 {
		t.Errorf("%d events are listed, want 2", lines)
	}
	servertest.WantWords(t, a.must(t, "quarantine", "list", "error.message: signed"), "poisoned", "not signed")
	for _, bad := range [][]string{{"quarantine", "list", "-n", "-1"}, {"quarantine", "lits"}, {"quarantine", "rewrite"}} {
		servertest.WantRun(t, a.call(t, bad...), exitUsage, "watership: ")
	}
}

// A query by the action finds what is in quarantine, and lists say so.
func TestSearchingQuarantine(t *testing.T) { bothWays(t, testSearchingQuarantine) }

func testSearchingQuarantine(t *testing.T, seed seeder) {
	a := seed(t)
	a.quarantine(t)
	for query, want := range map[string]string{
		"action: poisoned": "3", "action: published": "1", "action: quarantined": "1", "action: *": "5",
		"action: poisoned and not quarantined_action: *": "1", "action: poisoned and queue: orders": "2",
	} {
		if got := strings.TrimSpace(a.must(t, "search", query, "--count")); got != want {
			t.Errorf("%s finds %s, want %s", query, got, want)
		}
	}
	servertest.WantWords(t, a.must(t, "search", "action: poisoned"), "poisoned (quarantined)")
	servertest.WantWords(t, a.must(t, "show", "m-2"), "stands for the poisoned event (no stock of item 7), which the store refused: too many fields")
	servertest.WantWords(t, a.must(t, "show", a.unreadable(4).EventID), "in the log, and no event: not signed")
}

func TestQuarantineRewrite(t *testing.T) { inEitherStore(t, testQuarantineRewrite) }

func testQuarantineRewrite(t *testing.T, seed seeder) {
	a := seed(t)
	a.quarantine(t)
	plan := "3 events to write again\n       2  poisoned\n       1  published\n       1  left out: in the log, and no event\n"
	if got := a.must(t, "quarantine", "rewrite", "--dry-run"); got != plan {
		t.Errorf("the preview is\n%s", got)
	}
	servertest.WantRun(t, a.call(t, "quarantine", "rewrite", "queue: mails", "--yes"), exitOK, "1 event to write again", "wrote 1 event of 1")
	if got := a.must(t, "quarantine", "rewrite", "--yes"); !strings.HasSuffix(got, "wrote 2 events of 2\n") {
		t.Errorf("it says\n%s", got)
	}
	if got := a.must(t, "quarantine", "rewrite", "--yes"); got != "0 events to write again\n       1  left out: in the log, and no event\n" {
		t.Errorf("again, it says\n%s", got)
	}
}

// TestQuarantineAfterAMappingConflict: serve records a message whose document the mapping
// refuses; after the mapping was mended, the event is as if it never had.
func TestQuarantineAfterAMappingConflict(t *testing.T) {
	service := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusInternalServerError })
	i := servertest.Newest(t).Install(t, service.URL)
	if strings.HasPrefix(i.Store, "sqlite:") {
		t.Skip("a file has no mapping")
	}
	i.Rewrite(t, "index: {", "index: {labels: [tenant], ")
	i.Rewrite(t, "default: {delays: [100ms, 300ms]}", "default: {delays: []}")
	i.Serve(t)
	streams := []string{i.Stream + "-traffic", i.Stream + "-failures"}
	i.Send(t, i.Exchange, "k", amqp.Publishing{MessageId: "m-1"})
	i.Eventually(t, "action: poisoned", 1) // both streams exist
	for _, stream := range streams {
		i.AskStore(t, http.MethodPut, stream+"/_mapping", `{"properties":{"labels":{"properties":{"tenant":{"type":"date"}}}}}`)
	}
	i.Send(t, i.Exchange, "k", amqp.Publishing{MessageId: "m-2", Headers: amqp.Table{"tenant": "acme"}, Body: []byte(`{"order":2}`)})
	i.Eventually(t, "quarantined_action: *", 2)
	servertest.WantWords(t, i.Must(t, "quarantine", "list"), "published", "poisoned", "failed to parse field [labels.tenant] of type [date]")
	servertest.WantRun(t, i.Run(t, "failed"), exitOK, "2 failures")
	servertest.WantRun(t, i.Run(t, "quarantine", "rewrite", "--yes"), exitFailed,
		"wrote 0 events of 2", "the store refused 2 events again:\n", "failed to parse field [labels.tenant] of type [date]")
	if n := len(i.Eventually(t, "quarantined_action: *", 2)); n != 2 {
		t.Errorf("%d events are in quarantine", n)
	}
	for _, stream := range streams {
		i.AskStore(t, http.MethodPost, stream+"/_rollover?master_timeout=2m", "")
	}
	servertest.WantRun(t, i.Run(t, "quarantine", "rewrite", "--yes"), exitOK, "wrote 2 events of 2")
	i.Eventually(t, "labels.tenant: * and body.json.order: 2", 2)
	failed := i.Eventually(t, "action: poisoned and message.id: m-2", 1)[0]
	if failed.Failure.Message == "" || failed.Failure.Type == "quarantined" || failed.Attempt != 1 {
		t.Errorf("its failure is %+v, after %d attempts", failed.Failure, failed.Attempt)
	}
	i.Eventually(t, "message.id: m-2", 2)
	servertest.WantRun(t, i.Run(t, "quarantine", "rewrite", "--yes"), exitOK, "0 events to write again")
}

// TestReplayFromQuarantine: the preview names what is in quarantine, and what arrives is
// what was published.
func TestReplayFromQuarantine(t *testing.T) { played(t, testReplayFromQuarantine) }

func testReplayFromQuarantine(t *testing.T, a *playback) {
	odd := a.event(schemas.Poisoned, 1)
	odd.Envelope.Body = []byte{0, 1, 0xff, '\r', '\n'}
	odd.Envelope.Headers = amqp.Table{
		"byte": int8(-8), "int": int32(-32), "long": int64(math.MinInt64), "single": float32(0.1), "double": math.Copysign(0, -1),
		"money": amqp.Decimal{Scale: 2, Value: -12345}, "text": "é \x00 \"", "not utf-8": "\xfe\xff", "bytes": []byte{0, 255}, "none": nil,
		"list": []any{int32(1), "two", amqp.Table{"deep": true}}, "time": time.Unix(1700000000, 0),
	}
	odd.Envelope.Properties = schemas.Properties{
		ContentType: "text/plain", ContentEncoding: "gzip", DeliveryMode: 1, Priority: 7, CorrelationID: "c", MessageID: "m-1",
		Timestamp: time.Unix(1700000000, 0), Type: "order", AppID: "shop", Expiration: "600000",
	}
	odd.Fingerprint, odd.BodySize = odd.Envelope.Fingerprint(), len(odd.Envelope.Body)
	a.keep(odd.Quarantine("too many fields"), a.event(schemas.Poisoned, 2))
	servertest.WantRun(t, a.Run(t, "replay", "action: poisoned", "--yes"), exitOK,
		"2 messages to send", "       1  quarantined: sent from the kept message\n", "such as m-1  poisoned (quarantined)  too many fields", "sent 2 of 2")
	d := a.Broker.Take(t, a.Queue, 2)[0]
	got, want := schemas.FromDelivery(d), odd.Envelope
	if got.Fingerprint() != want.Fingerprint() || !bytes.Equal(got.Body, want.Body) {
		t.Errorf("another message arrived: %+v\nwant %+v", got, want)
	}
	got.Properties.Timestamp = got.Properties.Timestamp.Local()
	if got.Properties != want.Properties {
		t.Errorf("got the properties %+v, want %+v", got.Properties, want.Properties)
	}
	if out := a.Must(t, "replay", "message.id: m-2", "--dry-run", "--again"); strings.Contains(out, "quarantined") {
		t.Errorf("it is in no quarantine:\n%s", out)
	}
}

// A rewrite needs more than the role of serve, names what is missing, and changes nothing
// without it.
func TestRewriteNeedsPrivileges(t *testing.T) {
	store := newSecured(t)
	a := seeded{source: "test"}
	stream := "test-" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")) + fmt.Sprint(time.Now().UnixNano())
	role := strings.ReplaceAll(documented(t), "watership-messages", stream)
	store.role(t, role, stream)
	environ := []string{
		"WATERSHIP_STORE_URL=" + store.url, "WATERSHIP_STORE_STREAM=" + stream, "WATERSHIP_STORE_USERNAME=watership", "WATERSHIP_STORE_PASSWORD_FILE=" + store.password(),
		"WATERSHIP_STORE_TLS_CA=" + store.tls().CA, "WATERSHIP_STORE_TLS_CERT=" + store.tls().Cert, "WATERSHIP_STORE_TLS_KEY=" + store.tls().Key,
	}
	run := func(args ...string) servertest.Result {
		return call(t.Context(), strings.NewReader(""), environ, args...)
	}
	var lines []byte
	for _, e := range []schemas.Event{a.event(1, schemas.Published, quarantined), a.event(2, schemas.Poisoned, quarantined)} {
		lines = schemas.DocumentFormat{}.Append(lines, e)
		lines = append(lines, '\n')
	}
	servertest.WantRun(t, run("import", servertest.WriteFile(t, "events", string(lines))), exitOK, "created 2 events")
	got := run("quarantine", "rewrite", "--yes")
	servertest.WantRun(t, got, exitFailed, "wrote 0 events of 2", "the login watership lacks index, delete on "+stream+"-traffic", "docs/permissions.md")
	store.role(t, strings.Replace(role, `"auto_configure",`, `"auto_configure", "index", "delete", "read_cross_cluster",`, 1), `"read_cross_cluster"`)
	servertest.WantRun(t, run("quarantine", "rewrite", "--yes"), exitOK, "wrote 2 events of 2")
	servertest.WantRun(t, run("quarantine", "list"), exitOK, "nothing found")
}
