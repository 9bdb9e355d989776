package httpapi_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// served is a running server with a route, whose handler fails while it is broken.
type served struct {
	rig
	broker  rabbittest.Broker
	restart func(t *testing.T) (url string) // serves a second API, as another process would
	broken  *atomic.Bool
	handled *atomic.Int32
}

// onEvery runs a test on the embedded broker and store, and on each RabbitMQ with
// Elasticsearch.
func onEvery(t *testing.T, test func(t *testing.T, s served)) {
	t.Parallel() // most of it is waiting
	rabbittest.EachKind(t, func(t *testing.T, broker rabbittest.Broker) {
		t.Parallel()
		test(t, newSystem(t, broker))
	})
}

func newSystem(t *testing.T, broker rabbittest.Broker, settings ...string) served {
	t.Helper()
	broker = broker.VHost(t)
	store := "sqlite:" + filepath.Join(t.TempDir(), "store.db")
	if !broker.Own {
		if store = os.Getenv("WATERSHIP_TEST_STORE_URL"); store == "" {
			t.Skip("WATERSHIP_TEST_STORE_URL is not set")
		}
	}
	stream := "test-" + strings.ToLower(rand.Text()[:12])
	cfg, err := config.Load(config.Sources{Environ: append([]string{
		"WATERSHIP_AMQP_URL=" + broker.URL, "WATERSHIP_AMQP_MANAGEMENT_URL=" + broker.ManagementURL,
		"WATERSHIP_STORE_URL=" + store, "WATERSHIP_STORE_STREAM=" + stream,
	}, settings...)})
	if err != nil {
		t.Fatal(err)
	}
	a, err := system.Start(t.Context(), system.Config{Settings: cfg, Name: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := served{broker: broker, broken: &atomic.Bool{}, handled: &atomic.Int32{}}
	s.rig = rig{source: stream, recorder: &recorder{}, tokens: access.OpenTokenFile(filepath.Join(t.TempDir(), "tokens.json"))}
	s.rig = s.as(t, access.Token{Name: "ada", Role: access.Admin, Bodies: true})
	ch := broker.Channel(t)
	if err := ch.ExchangeDeclare("shop", "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	made, err := server.New(t.Context(), a, server.Config{
		Taps: []pipeline.Tap{{Exchange: "shop", Type: "topic"}}, Routes: []pipeline.Route{s.route()},
	})
	if err != nil {
		t.Fatal(err)
	}
	handler := httpapi.New(a, made)
	guard, err := access.New(access.Config{Logger: slog.New(slog.DiscardHandler), Recorder: s.recorder, Tokens: s.tokens, Queries: handler.Queries()})
	if err != nil {
		t.Fatal(err)
	}
	listening := httptest.NewServer(guard.Handler(handler))
	s.url = listening.URL + httpapi.Prefix
	s.restart = func(t *testing.T) string {
		t.Helper()
		other := httpapi.New(a, made)
		server := httptest.NewServer(guard.Handler(other))
		ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		ended := make(chan error, 1)
		go func() { ended <- other.Run(ctx) }()
		t.Cleanup(func() { server.Close(); stop(); <-ended })
		return server.URL + httpapi.Prefix
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- made.Run(ctx, server.Faces{
			API: handler,
			Run: func(ctx context.Context) error {
				for made.Ready(ctx) != nil && ctx.Err() == nil {
					time.Sleep(20 * time.Millisecond)
				}
				close(ready)
				<-ctx.Done()
				return nil
			},
		})
	}()
	t.Cleanup(func() {
		listening.Close()
		stop()
		if err := errors.Join(<-ended, a.Close()); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	}
	s.awaitShards(t)
	return s
}

func (s served) route() pipeline.Route {
	never := &retry.Policy{}
	return pipeline.Route{
		Queue: "orders", Bind: []pipeline.Binding{{Exchange: "shop", Key: "order.#"}}, Policy: never,
		Handler: func(*message.Message) ([]*message.Message, error) {
			if s.broken.Load() {
				return nil, retry.Permanent(errors.New("no such table: violins"))
			}
			s.handled.Add(1)
			return nil, nil
		},
	}
}

// eventually repeats a check until it holds.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	if !rabbittest.Poll(rabbittest.Timeout, check) {
		t.Fatalf("never: %s", what)
	}
}

// post sends a request that has to succeed.
func (r rig) post(t *testing.T, path, body string, headers ...string) map[string]any {
	t.Helper()
	got := r.do(t, http.MethodPost, path, body, headers...)
	if got.StatusCode >= http.StatusMultipleChoices {
		t.Fatalf("POST %s %s: %s %s", path, body, got.Status, got.body)
	}
	return got.json(t)
}

// fail publishes messages that become failures.
func (s served) fail(t *testing.T, ids ...string) {
	t.Helper()
	s.broken.Store(true)
	for _, id := range ids {
		s.post(t, "/messages", `{"exchange":"shop","routing_key":"order.created","text":"{\"order\":1}","headers":{"tenant":"acme","n":7},"properties":{"message_id":"`+id+`"}}`)
	}
	eventually(t, "the failures are stored", func() bool {
		return s.get(t, "/events/count"+query("query", "action: poisoned and message.id: ("+strings.Join(ids, " or ")+")"))["count"] == float64(len(ids))
	})
	s.broken.Store(false)
}

func TestReplays(t *testing.T) { onEvery(t, testReplays) }

func testReplays(t *testing.T, s served) {
	s.fail(t, "m-1", "m-2", "m-3")
	const request = `{"query":"action: poisoned and queue: orders","target":{"kind":"failed_queue"},"reason":"fixed"}`
	plan := s.post(t, "/replays/plan", request)
	upTo, _ := plan["up_to"].(float64)
	if before := s.post(t, "/replays/plan", strings.Replace(request, "{", `{"up_to":1,`, 1)); upTo == 0 || before["matched"] != 0.0 {
		t.Errorf("up to the first event there are %v, of %v", before, upTo)
	}
	if plan["matched"] != 3.0 || plan["problem"] != nil || member(plan["routes"].([]any)[0], "queue") != "orders" {
		t.Fatalf("%v", plan)
	}
	s.do(t, http.MethodPost, "/replays", strings.Replace(request, "{", `{"expect":2,`, 1)).wantProblem(t, http.StatusConflict, "3 messages match, 2 expected: nothing was changed")
	started := s.do(t, http.MethodPost, "/replays", request, "Idempotency-Key", "once")
	again := s.do(t, http.MethodPost, "/replays", request, "Idempotency-Key", "once")
	id, _ := started.json(t)["id"].(string)
	if started.StatusCode != http.StatusAccepted || string(started.body) != string(again.body) || id == "" {
		t.Fatalf("%s %s, again %s %s", started.Status, started.body, again.Status, again.body)
	}
	s.do(t, http.MethodPost, "/replays", strings.Replace(request, "fixed", "other", 1), "Idempotency-Key", "once").
		wantProblem(t, http.StatusUnprocessableEntity, "Idempotency-Key")
	last := s.watch(t, id)
	if !strings.Contains(last, `"state":"done"`) || !strings.Contains(last, `"sent":3`) {
		t.Errorf("the last event is %s", last)
	}
	eventually(t, "all are handled", func() bool { return s.get(t, "/replays/"+id+"/outcomes")["handled"] == 3.0 })
	if got := s.handled.Load(); got != 3 {
		t.Errorf("%d messages were handled", got)
	}
	jobs, _ := s.get(t, "/replays")["jobs"].([]any)
	if len(jobs) != 1 || member(jobs[0], "operator") != "ada" || member(jobs[0], "reason") != "fixed" {
		t.Errorf("%v", jobs)
	}
	if groups := s.get(t, "/failures/groups"); groups["failures"] != 0.0 {
		t.Errorf("unresolved: %v", groups)
	}
	for _, body := range []string{"{}", ""} {
		s.do(t, http.MethodPost, "/replays/"+id+"/resume", body).wantProblem(t, http.StatusConflict, "nothing left")
		s.do(t, http.MethodPost, "/replays/"+id+"/cancel", body).wantProblem(t, http.StatusConflict, "nothing left")
	}
	s.do(t, http.MethodGet, "/replays/nobody", "").wantProblem(t, http.StatusNotFound, "nobody")
}

// watch returns the data of the last event about a job.
func (s served) watch(t *testing.T, id string) (last string) {
	t.Helper()
	events, end := s.stream(t, "/replays/"+id+"/watch", "")
	defer end()
	for events.Scan() {
		if data, is := strings.CutPrefix(events.Text(), "data: "); is {
			last = data
		}
	}
	if err := events.Err(); err != nil {
		t.Error(err)
	}
	return last
}

// stream opens a stream of events.
func (r rig) stream(t *testing.T, path, lastID string) (lines *bufio.Scanner, end func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+r.secret)
	if lastID != "" {
		request.Header.Set("Last-Event-ID", lastID)
	}
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s %v", got.Status, got.Header)
	}
	lines = bufio.NewScanner(got.Body)
	lines.Buffer(nil, 1<<20)
	return lines, func() { cancel(); _ = got.Body.Close() }
}

// A job stops after its canaries, and goes on when it is resumed.
func TestResumeAndCancel(t *testing.T) { onEvery(t, testResumeAndCancel) }

func testResumeAndCancel(t *testing.T, s served) {
	s.fail(t, "m-1", "m-2", "m-3")
	const request = `{"query":"action: poisoned","target":{"kind":"failed_queue"},"stop_after":1,"rate":1000}`
	id, _ := s.post(t, "/replays", request)["id"].(string)
	state := func(want string) func() bool {
		return func() bool { return s.get(t, "/replays/"+id)["state"] == want }
	}
	eventually(t, "it is paused", state("paused"))
	if job := s.get(t, "/replays/"+id); job["sent"] != 1.0 || job["can_resume"] != true {
		t.Errorf("%v", job)
	}
	s.post(t, "/replays/"+id+"/resume", `{"stop_after":1}`)
	eventually(t, "it has sent another", func() bool { return s.get(t, "/replays/"+id)["sent"] == 2.0 })
	eventually(t, "it is paused again", state("paused"))
	cancelled := s.post(t, "/replays/"+id+"/cancel", `{"reason":"wrong"}`)
	if cancelled["state"] != "cancelled" || cancelled["problem"] != "by ada: wrong" {
		t.Errorf("%v", cancelled)
	}
}

// The key of a request finds its job in another process, too.
func TestAKeyOutlivesTheProcess(t *testing.T) { onEvery(t, testAKeyOutlivesTheProcess) }

func testAKeyOutlivesTheProcess(t *testing.T, s served) {
	s.fail(t, "m-1")
	const request = `{"query":"action: poisoned","target":{"kind":"failed_queue"}}`
	first := s.post(t, "/replays", request, "Idempotency-Key", "k")
	s.url = s.restart(t)
	if again := s.post(t, "/replays", request, "Idempotency-Key", "k"); again["id"] != first["id"] {
		t.Errorf("job %v, then %v", first["id"], again["id"])
	}
	s.do(t, http.MethodPost, "/replays", strings.Replace(request, "failed_queue", "origin", 1), "Idempotency-Key", "k").
		wantProblem(t, http.StatusUnprocessableEntity, "Idempotency-Key")
	if jobs, _ := s.get(t, "/replays")["jobs"].([]any); len(jobs) != 1 {
		t.Errorf("%d jobs", len(jobs))
	}
}

// A token that is made again with fewer permissions does not get the job of its predecessor.
func TestAKeyOfOtherPermissions(t *testing.T) { onEvery(t, testAKeyOfOtherPermissions) }

func testAKeyOfOtherPermissions(t *testing.T, s served) {
	s.fail(t, "m-1")
	const request = `{"query":"action: poisoned","target":{"kind":"failed_queue"}}`
	whole := s.rig.as(t, access.Token{Name: "olga", Role: access.Operator})
	id := whole.post(t, "/replays", request, "Idempotency-Key", "k")["id"]
	if err := s.tokens.Revoke("olga"); err != nil {
		t.Fatal(err)
	}
	limited := s.rig.as(t, access.Token{Name: "olga", Role: access.Operator, Queues: []string{"mails"}})
	limited.do(t, http.MethodPost, "/replays", request, "Idempotency-Key", "k").wantProblem(t, http.StatusUnprocessableEntity, "or with other permissions")
	limited.url = s.restart(t)
	limited.do(t, http.MethodPost, "/replays", request, "Idempotency-Key", "k").wantProblem(t, http.StatusUnprocessableEntity, "or with other permissions")
	if jobs, _ := s.get(t, "/replays")["jobs"].([]any); len(jobs) != 1 || member(jobs[0], "id") != id {
		t.Errorf("the jobs are %v", jobs)
	}
}

func TestDiscard(t *testing.T) { onEvery(t, testDiscard) }

func testDiscard(t *testing.T, s served) {
	s.fail(t, "m-1", "m-2")
	page := s.get(t, "/failures?limit=1")
	list, _ := page["failures"].([]any)
	cursor, _ := page["cursor"].(string)
	if len(list) != 1 || member(list[0], "queue") != "orders" || cursor == "" {
		t.Fatalf("%v", page)
	}
	second, _ := s.get(t, "/failures"+query("limit", "1", "cursor", cursor))["failures"].([]any)
	if len(second) != 1 || member(second[0], "event_id") == member(list[0], "event_id") {
		t.Errorf("%v", second)
	}
	s.do(t, http.MethodPost, "/failures/discard", `{"reason":"x"}`).wantProblem(t, http.StatusBadRequest, "expected query")
	s.do(t, http.MethodPost, "/failures/discard", `{"query":"*","reason":" "}`).wantCode(t, code.InvalidValue, "validation")
	s.do(t, http.MethodPost, "/failures/discard", `{"query":"*","reason":"x","expect":5}`).wantCode(t, code.ExpectMismatch, "nothing was changed")
	dry := s.post(t, "/failures/discard", `{"query":"*","dry_run":true}`)
	if sample, _ := dry["sample"].([]any); dry["matched"] != 2.0 || dry["done"] != 0.0 || member(dry["queues"], "orders") != 2.0 ||
		len(sample) != 2 || member(sample[0], "event_id") != member(list[0], "event_id") {
		t.Errorf("%v", dry)
	}
	s.do(t, http.MethodPost, "/failures/discard", `{"query":"*"}`).wantProblem(t, http.StatusUnprocessableEntity, "validation")
	got := s.post(t, "/failures/discard", `{"ids":["m-1","nobody"],"reason":"test orders"}`)
	if got["done"] != 1.0 || got["missing"] != 0.0 || len(got["unknown"].([]any)) != 1 {
		t.Errorf("%v", got)
	}
	if groups := s.get(t, "/failures/groups"); groups["failures"] != 1.0 {
		t.Errorf("%v", groups)
	}
	if got := s.post(t, "/failures/discard", `{"ids":["m-1"],"reason":"test orders"}`); got["matched"] != 0.0 {
		t.Errorf("again: %v", got)
	}
}

func TestPublish(t *testing.T) { onEvery(t, testPublish) }

func testPublish(t *testing.T, s served) {
	const request = `{"exchange":"shop","routing_key":"order.created","base64":"AAH/","headers":{"n":1,"x":1.5,"list":[true,null,"a"]}}`
	first := s.post(t, "/messages", request, "Idempotency-Key", "k")
	if again := s.post(t, "/messages", request, "Idempotency-Key", "k"); again["message_id"] != first["message_id"] || first["message_id"] == nil {
		t.Errorf("%v, again %v", first, again)
	}
	id, _ := first["fingerprint"].(string)
	eventually(t, "it is recorded with its body", func() bool { // its handled event may come first
		return s.do(t, http.MethodGet, "/messages/"+id+"/body", "").StatusCode == http.StatusOK
	})
	if got := s.do(t, http.MethodGet, "/messages/"+id+"/body", ""); string(got.body) != "\x00\x01\xff" {
		t.Errorf("the body is %q", got.body)
	}
	eventually(t, "it is handled", func() bool { return s.handled.Load() > 0 })
	if got := s.handled.Load(); got != 1 {
		t.Errorf("handled %d times", got)
	}
	for _, test := range []struct {
		body   string
		status int
		detail string
	}{
		{`{"exchange":"","routing_key":"nowhere"}`, http.StatusConflict, "nowhere"},
		{`{"exchange":"watership.events","routing_key":"discarded"}`, http.StatusForbidden, "Watership's own"},
		{`{"exchange":"","routing_key":"watership.log"}`, http.StatusForbidden, "Watership's own"},
		{`{"exchange":"shop","text":"a","base64":"AAAA"}`, http.StatusBadRequest, "cannot be combined"},
		{`{"routing_key":"order.created"}`, http.StatusUnprocessableEntity, "validation"},
	} {
		s.do(t, http.MethodPost, "/messages", test.body).wantProblem(t, test.status, test.detail)
	}
}

// A batch is published as export writes messages, or not at all if one is refused.
func TestPublishABatch(t *testing.T) { onEvery(t, testPublishABatch) }

func testPublishABatch(t *testing.T, s served) {
	document := func(exchange, key string) string {
		e := s.event(1, schemas.Published)
		e.Envelope.Exchange, e.Envelope.RoutingKey = exchange, key
		e.Envelope.Headers = amqp.Table{"small": int8(7), "at": happened.UTC()}
		return string(schemas.DocumentFormat{}.Append(nil, e)) + "\n"
	}
	good := document("shop", "order.created")
	for _, test := range []struct {
		body   string
		status int
		detail string
	}{
		{"", http.StatusBadRequest, ""},
		{good + "{}\n", http.StatusBadRequest, "line 2: expected a document that export wrote"},
		{good + document("watership.events", "discarded"), http.StatusForbidden, "Watership's own"},
	} {
		s.do(t, http.MethodPost, "/messages/batch", test.body, "Content-Type", "application/x-ndjson").wantProblem(t, test.status, test.detail)
	}
	if got := s.do(t, http.MethodPost, "/messages/batch", good+document("", "nowhere")+good, "Content-Type", "application/x-ndjson"); got.wantProblem(t, http.StatusConflict, "nowhere")["done"] != 1.0 && got.json(t)["done"] != 2.0 {
		t.Errorf("%s", got.body)
	}
	before := s.handled.Load()
	if got := s.do(t, http.MethodPost, "/messages/batch", good+good, "Content-Type", "application/x-ndjson", "Idempotency-Key", "b"); string(got.body) != "{\"published\":2}\n" {
		t.Errorf("%s", got.body)
	}
	s.do(t, http.MethodPost, "/messages/batch", good+good, "Content-Type", "application/x-ndjson", "Idempotency-Key", "b")
	eventually(t, "both are handled", func() bool { return s.handled.Load() >= before+2 })
	eventually(t, "they are recorded", func() bool {
		page := s.get(t, "/events"+query("query", "action: published and routing_key: order.created", "limit", "1"))
		list, _ := page["events"].([]any)
		if len(list) == 0 {
			return false
		}
		text, _ := json.Marshal(list[0])
		e, err := schemas.ParseDocument(text)
		return err == nil && e.Envelope.Headers["small"] == int8(7) && e.Envelope.Headers["at"] != nil
	})
	s.as(t, access.Token{Name: "bob", Role: access.Operator, Exchanges: []string{"post"}}).
		do(t, http.MethodPost, "/messages/batch", good, "Content-Type", "application/x-ndjson").wantProblem(t, http.StatusForbidden, "shop")
}

// A program reads bodies, so that its caller needs the permission to read them; a program that
// cannot run is refused.
func TestTransformNeedsBodies(t *testing.T) { onEvery(t, testTransformNeedsBodies) }

func testTransformNeedsBodies(t *testing.T, s served) {
	s.fail(t, "m-1")
	const request = `{"query":"action: poisoned","target":{"kind":"failed_queue"},"transform":".headers.body = .body"}`
	without := s.as(t, access.Token{Name: "dan", Role: access.Operator})
	for _, path := range []string{"/replays/plan", "/replays"} {
		without.do(t, http.MethodPost, path, request).wantProblem(t, http.StatusForbidden, "dan may not read bodies")
	}
	with := s.as(t, access.Token{Name: "eva", Role: access.Operator, Bodies: true, Queues: []string{"orders"}})
	plan := with.post(t, "/replays/plan", request)
	if examples, _ := plan["examples"].([]any); len(examples) != 1 || member(examples[0], "after") == nil {
		t.Errorf("the plan: %v", plan)
	}
	with.do(t, http.MethodPost, "/replays/plan", strings.Replace(request, ".headers.body = .body", "nosuch", 1)).wantProblem(t, http.StatusBadRequest, "function not defined")
	if jobs, _ := s.get(t, "/replays")["jobs"].([]any); len(jobs) != 0 {
		t.Errorf("there are jobs: %v", jobs)
	}
}

func TestActionsOfLimitedCallers(t *testing.T) { onEvery(t, testActionsOfLimitedCallers) }

func testActionsOfLimitedCallers(t *testing.T, s served) {
	s.fail(t, "m-1")
	bob := s.as(t, access.Token{Name: "bob", Role: access.Operator, Queues: []string{"mails"}, Exchanges: []string{"post"}})
	for _, test := range []struct{ path, body string }{
		{"/messages", `{"exchange":"shop","routing_key":"order.created"}`},
		{"/messages", `{"exchange":"","routing_key":"orders"}`},
		{"/replays/plan", `{"query":"*","target":{"kind":"queue","queue":"orders"}}`},
		{"/replays/plan", `{"query":"*","target":{"kind":"exchange","exchange":"shop"}}`},
		{"/replays/plan", `{"query":"*","target":{"kind":"queue","queue":"mails"},"changes":{"set_headers":["CC=orders"]}}`},
		{"/replays/plan", `{"query":"*","target":{"kind":"origin"},"transform":"."}`},
		{"/replays/plan", `{"query":"*","target":{"kind":"exchange","exchange":"post"},"transform":"."}`},
	} {
		bob.do(t, http.MethodPost, test.path, test.body).wantProblem(t, http.StatusForbidden, "")
	}
	bob.do(t, http.MethodGet, "/doctor", "").wantProblem(t, http.StatusForbidden, "limited")
	for _, kind := range []string{"failed_queue", "origin"} {
		if plan := bob.post(t, "/replays/plan", `{"query":"*","target":{"kind":"`+kind+`"}}`); plan["matched"] != 0.0 {
			t.Errorf("bob may replay to %s: %v", kind, plan)
		}
	}
	if got := bob.post(t, "/failures/discard", `{"query":"*","reason":"mine"}`); got["matched"] != 0.0 {
		t.Errorf("bob may discard: %v", got)
	}
	if got := bob.get(t, "/failures/groups"); got["failures"] != 0.0 {
		t.Errorf("bob sees %v", got)
	}
	s.post(t, "/replays", `{"query":"action: poisoned","target":{"kind":"failed_queue"}}`)
	for path, member := range map[string]string{"/replays": "jobs", "/routes": "routes", "/queues": "queues"} {
		if got, _ := bob.get(t, path)[member].([]any); len(got) != 0 {
			t.Errorf("bob sees %s %v", path, got)
		}
	}
	carol := s.as(t, access.Token{Name: "carol", Role: access.Operator, Queues: []string{"ord*", "mails"}, Exchanges: []string{"shop"}})
	own, _ := carol.post(t, "/replays", `{"query":"queue: orders or action: poisoned","target":{"kind":"failed_queue"},"again":true,"stop_after":1}`)["id"].(string)
	if jobs, _ := carol.get(t, "/replays")["jobs"].([]any); len(jobs) != 1 || member(jobs[0], "id") != own {
		t.Errorf("carol sees %v, started %s", jobs, own)
	}
	other := s.as(t, access.Token{Name: "carol2", Role: access.Operator, Queues: []string{"ord*"}, Exchanges: []string{"shop"}})
	for _, path := range []string{"/replays/" + own, "/replays/" + own + "/outcomes", "/replays/" + own + "/watch"} {
		other.do(t, http.MethodGet, path, "").wantProblem(t, http.StatusNotFound, own)
	}
	other.do(t, http.MethodPost, "/replays/"+own+"/cancel", "{}").wantProblem(t, http.StatusNotFound, own)
	viewer := s.as(t, access.Token{Name: "eve", Role: access.Viewer})
	viewer.do(t, http.MethodPost, "/messages", `{"exchange":"shop"}`).wantProblem(t, http.StatusForbidden, "operator")
	viewer.do(t, http.MethodGet, "/events/export?query=*", "").wantProblem(t, http.StatusForbidden, "bodies")
}

func TestSystem(t *testing.T) { onEvery(t, testSystem) }

func testSystem(t *testing.T, s served) {
	routes, _ := s.get(t, "/queues")["queues"].([]any)
	if len(routes) < 5 {
		t.Errorf("%v", routes)
	}
	findings, _ := s.get(t, "/doctor")["findings"].([]any)
	if len(findings) < 5 {
		t.Errorf("%v", findings)
	}
	if got := s.get(t, "/version"); member(got, "caller", "role") != "admin" {
		t.Errorf("%v", got)
	}
}

// A tail gives each event once, also over a broken connection.
func TestTail(t *testing.T) { onEvery(t, testTail) }

func testTail(t *testing.T, s served) {
	publish := func(id string) {
		s.post(t, "/messages", `{"exchange":"shop","routing_key":"other","properties":{"message_id":"`+id+`"}}`)
	}
	// next returns the message id and the event id of the next event.
	next := func(lines *bufio.Scanner) (message, id string) {
		for lines.Scan() {
			if text, is := strings.CutPrefix(lines.Text(), "id: "); is {
				id = text
			}
			if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
				_, after, _ := strings.Cut(data, `"message":{"id":"`)
				message, _, _ = strings.Cut(after, `"`)
				return message, id
			}
		}
		t.Fatal("the stream ended:", lines.Err())
		return "", ""
	}
	lines, end := s.stream(t, "/events/tail"+query("query", "action: published"), "")
	first := ""
	for first == "" && lines.Scan() {
		first, _ = strings.CutPrefix(lines.Text(), "id: ")
		first = strings.TrimPrefix(first, ": connected")
	}
	publish("m-1")
	message, id := next(lines)
	if message != "m-1" || id == "" {
		t.Errorf("%s %s", message, id)
	}
	end()
	lines, end = s.stream(t, "/events/tail"+query("query", "action: published"), first)
	if message, _ := next(lines); message != "m-1" {
		t.Errorf("after the first id comes %s", message)
	}
	end()
	publish("m-2")
	publish("m-3")
	lines, end = s.stream(t, "/events/tail"+query("query", "action: published"), id)
	defer end()
	for _, want := range []string{"m-2", "m-3"} {
		if message, _ := next(lines); message != want {
			t.Errorf("%s came, want %s", message, want)
		}
	}
}
