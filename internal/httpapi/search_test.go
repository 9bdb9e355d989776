package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/schemas"
)

func at(queue string) func(*schemas.Event) { return func(e *schemas.Event) { e.Queue = queue } }

func failed(queue, message string) func(*schemas.Event) {
	return func(e *schemas.Event) {
		e.Queue, e.Attempt = queue, 3
		e.Failure = schemas.Failure{Message: message, Type: "http.Status", Class: "server"}
	}
}

// query makes the query of a URL from pairs.
func query(pairs ...string) string {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Add(pairs[i], pairs[i+1])
	}
	return "?" + values.Encode()
}

// ids are the message ids of a page of events, in order.
func ids(t *testing.T, page map[string]any) string {
	t.Helper()
	events, is := page["events"].([]any)
	if !is {
		t.Fatalf("no events in %v", page)
	}
	var list []string
	for _, e := range events {
		list = append(list, fmt.Sprint(member(e, "messaging", "message", "id")))
	}
	return strings.Join(list, " ")
}

func member(value any, path ...string) any {
	for _, name := range path {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return value
}

func TestSearch(t *testing.T) { inEachStore(t, testSearch) }

func testSearch(t *testing.T, r rig) {
	r.keep(t, r.event(1, schemas.Published), r.event(2, schemas.Handled, at("orders")), r.event(3, schemas.Poisoned, failed("orders", "timeout")))
	for _, test := range []struct {
		query []string
		want  string
	}{
		{nil, "m-3 m-2 m-1"},
		{[]string{"query", "action: poisoned"}, "m-3"},
		{[]string{"query", "queue: orders", "limit", "1"}, "m-3"},
		{[]string{"from", "2026-05-04T03:00:02Z", "to", "2026-05-04T03:00:03Z"}, "m-2"},
		{[]string{"since", "1h"}, ""},
	} {
		if got := ids(t, r.get(t, "/events"+query(test.query...))); got != test.want {
			t.Errorf("%v: %q, want %q", test.query, got, test.want)
		}
	}
	for _, fields := range []string{query("fields", "queue,headers.tenant"), query("fields", "queue", "fields", "headers.tenant")} { // lists of clients in other languages
		page := r.get(t, "/events"+fields+"&query=message.id:m-3")
		if got, _ := json.Marshal(page); string(got) != `{"events":[{"headers":{"tenant":"acme"},"watership":{"queue":"orders"}}]}` {
			t.Errorf("%s: %s", fields, got)
		}
	}
}

func TestPagesOfASearch(t *testing.T) { inEachStore(t, testPagesOfASearch) }

func testPagesOfASearch(t *testing.T, r rig) {
	var events []schemas.Event
	for n := range 25 {
		events = append(events, r.event(n, schemas.Published, func(e *schemas.Event) { e.Time = happened })) // all at once
	}
	r.keep(t, events...)
	var got []string
	for cursor := ""; ; {
		page := r.get(t, "/events"+query("limit", "10", "cursor", cursor))
		got = append(got, strings.Fields(ids(t, page))...)
		if cursor, _ = page["cursor"].(string); cursor == "" {
			break
		}
		r.keep(t, r.event(100+len(got), schemas.Published)) // newer: on no later page
	}
	if len(got) != 25 || got[0] != "m-24" || got[24] != "m-0" {
		t.Errorf("%d events: %v", len(got), got)
	}
}

// A page of large bodies ends early, with a cursor.
func TestPagesAreBounded(t *testing.T) { inEachStore(t, testPagesAreBounded) }

func testPagesAreBounded(t *testing.T, r rig) {
	var events []schemas.Event
	for n := range 5 {
		events = append(events, r.event(n, schemas.Published, func(e *schemas.Event) { e.Envelope.Body = []byte(strings.Repeat("x", 3<<20)) }))
	}
	r.keep(t, events...)
	page := r.get(t, "/events?body=true")
	if got := ids(t, page); got != "m-4 m-3 m-2" || page["cursor"] == nil {
		t.Errorf("%q, cursor %v", got, page["cursor"])
	}
}

// A document has all that publishes its message again.
func TestSearchGivesWholeDocuments(t *testing.T) { inEachStore(t, testSearchGivesWholeDocuments) }

func testSearchGivesWholeDocuments(t *testing.T, r rig) {
	want := r.event(1, schemas.Published)
	r.keep(t, want)
	var page struct{ Events []json.RawMessage }
	if err := json.Unmarshal(r.do(t, http.MethodGet, "/events?body=true", "").body, &page); err != nil || len(page.Events) != 1 {
		t.Fatal(page, err)
	}
	got, err := schemas.ParseDocument(page.Events[0])
	if err != nil || got.Envelope.Fingerprint() != want.Fingerprint || string(got.Envelope.Body) != string(want.Envelope.Body) {
		t.Errorf("%+v, %v", got, err)
	}
	event := r.get(t, "/event"+query("id", want.EventID))
	if member(event, "body") != nil && member(event, "body", "text") != nil || member(event, "event", "action") != "published" {
		t.Errorf("%v", event)
	}
	r.do(t, http.MethodGet, "/event?id=nobody", "").wantProblem(t, http.StatusNotFound, "nobody")
}

func TestMistakesInSearches(t *testing.T) { inEachStore(t, testMistakesInSearches) }

func testMistakesInSearches(t *testing.T, r rig) {
	for _, test := range []struct {
		query, detail string
		status        int
	}{
		{query("query", "action: ("), "expected", http.StatusBadRequest},
		{query("query", "nonsense: 1"), "nonsense", http.StatusBadRequest},
		{query("since", "yesterday"), `since "yesterday": expected a duration`, http.StatusBadRequest},
		{query("since", "1h", "from", "now-1d"), "cannot be combined", http.StatusBadRequest},
		{query("query", "message.id: "+strings.Repeat("a*", 1900)), "found one more wildcard, expected at most 32", http.StatusBadRequest},
		{query("query", strings.Repeat("(a or ", 100)+"b"+strings.Repeat(")", 100)), "at most 25 within one another", http.StatusBadRequest},
		{query("dsl", "{"), "dsl", http.StatusBadRequest},
		{query("dsl", `{"regexp": {"messaging.message.id": "m-1"}}`), `the query "regexp" is not permitted`, http.StatusBadRequest},
		{query("dsl", `{"terms": {"messaging.message.id": {"index": "other", "id": "1", "path": "v"}}}`), "values of other documents cannot be looked up", http.StatusBadRequest},
		{query("cursor", "%%%"), "validation failed", http.StatusUnprocessableEntity},
		{query("cursor", "e30x"), "cursor", http.StatusBadRequest},
		{query("fields", "nonsense"), "nonsense", http.StatusBadRequest},
		{query("limit", "0"), "validation failed", http.StatusUnprocessableEntity},
		{query("limit", ""), "validation failed", http.StatusUnprocessableEntity},
		{query("limit", "1", "limit", "2"), "validation failed", http.StatusUnprocessableEntity},
		{query("query", "queue: a", "query", "queue: b"), "validation failed", http.StatusUnprocessableEntity},
		{query("fields", "queue", "fields", "nonsense"), "nonsense", http.StatusBadRequest},
		{query("limti", "1"), "validation failed", http.StatusUnprocessableEntity},
	} {
		r.do(t, http.MethodGet, "/events"+test.query, "").wantProblem(t, test.status, test.detail)
	}
	if got := string(r.do(t, http.MethodGet, "/events?since=yesterday", "").body); strings.Contains(got, "--") {
		t.Errorf("a flag of the command: %s", got)
	}
	problem := r.do(t, http.MethodGet, "/events"+query("query", "acton: poisoned"), "").wantProblem(t, http.StatusBadRequest, "acton")
	if member(problem, "position", "offset") != 0.0 || member(problem, "position", "query") != "acton: poisoned" || problem["remedy"] == nil {
		t.Errorf("%v", problem)
	}
	r.do(t, http.MethodGet, "/nothing", "").wantProblem(t, http.StatusNotFound, "no such path")
	r.do(t, http.MethodDelete, "/events", "").wantProblem(t, http.StatusMethodNotAllowed, "DELETE")
	if got := r.do(t, http.MethodOptions, "/replays/plan", "").Header.Get("Allow"); got != "POST" {
		t.Errorf("the path of plans has the methods %s", got)
	}
}

func TestCounts(t *testing.T) { inEachStore(t, testCounts) }

func testCounts(t *testing.T, r rig) {
	for n := range 12 {
		queue := "orders"
		if n%4 == 0 {
			queue = "mails"
		}
		r.keep(t, r.event(n, schemas.Poisoned, failed(queue, fmt.Sprint("order ", n, " is lost"))))
	}
	r.keep(t, r.event(20, schemas.Published))
	for _, test := range []struct{ path, want string }{
		{"/events/count" + query("query", "action: poisoned"), `{"count":12}`},
		{"/events/count" + query("query", "action: handled"), `{"count":0}`},
		{
			"/events/values" + query("field", "queue"),
			`{"field":"watership.queue","inexact":0,"others":0,"values":[{"count":9,"value":"orders"},{"count":3,"value":"mails"}],"without":1}`,
		},
		{
			"/events/values" + query("field", "queue", "limit", "1"),
			`{"field":"watership.queue","inexact":0,"others":3,"values":[{"count":9,"value":"orders"}],"without":1}`,
		},
	} {
		got, _ := json.Marshal(r.get(t, test.path))
		if string(got) != test.want {
			t.Errorf("%s: %s, want %s", test.path, got, test.want)
		}
	}
	steps, _ := r.get(t, "/events/histogram"+query("steps", "10"))["values"].([]any)
	if len(steps) < 2 || len(steps) > 10 {
		t.Errorf("%d steps: %v", len(steps), steps)
	}
	if steps, _ := r.get(t, "/events/histogram"+query("steps", "10", "zone", "+05:45"))["values"].([]any); len(steps) < 2 {
		t.Errorf("in a zone by its offset: %v", steps)
	}
	r.do(t, http.MethodGet, "/events/values"+query("field", "error.message"), "").wantProblem(t, http.StatusBadRequest, "error_group")
	r.do(t, http.MethodGet, "/events/histogram"+query("field", "queue"), "").wantProblem(t, http.StatusBadRequest, "time")
	r.do(t, http.MethodGet, "/events/histogram"+query("zone", "Nowhere"), "").wantProblem(t, http.StatusBadRequest, "zone")
	if fields, _ := r.get(t, "/fields")["fields"].([]any); len(fields) < 40 {
		t.Errorf("%d fields", len(fields))
	}
}

// A caller with limits sees the events of its queues and exchanges alone, in lists and
// in counts, and bodies only with the permission.
func TestLimitsOfCallers(t *testing.T) { inEachStore(t, testLimitsOfCallers) }

func testLimitsOfCallers(t *testing.T, r rig) {
	r.keep(t,
		r.event(1, schemas.Published), r.event(2, schemas.Published, func(e *schemas.Event) { e.Envelope.Exchange = "bank" }),
		r.event(3, schemas.Poisoned, failed("orders", "timeout")), r.event(4, schemas.Poisoned, failed("payments", "timeout")))
	limited := r.as(t, access.Token{Name: "bob", Role: access.Viewer, Queues: []string{"ord*"}, Exchanges: []string{"shop"}})
	if got := ids(t, limited.get(t, "/events")); got != "m-3 m-1" {
		t.Errorf("bob sees %q", got)
	}
	if got := limited.get(t, "/events/count")["count"]; got != 2.0 {
		t.Errorf("bob counts %v", got)
	}
	values, _ := json.Marshal(limited.get(t, "/events/values?field=queue")["values"])
	if string(values) != `[{"count":1,"value":"orders"}]` {
		t.Errorf("bob sees the queues %s", values)
	}
	hidden := r.event(4, schemas.Poisoned).EventID
	for _, path := range []string{"/event" + query("id", hidden), "/messages/m-4", "/messages/m-4/conversation"} {
		limited.do(t, http.MethodGet, path, "").wantProblem(t, http.StatusNotFound, "")
	}
	for _, path := range []string{
		"/events?body=true", "/events?fields=body.text", "/events" + query("query", "body.text: order"), "/events/count" + query("query", "timeout"),
		"/events/values?field=body.json.order", "/messages/m-3?body=true", "/messages/m-3/body", "/events" + query("dsl", `{"match_all":{}}`),
	} {
		limited.do(t, http.MethodGet, path, "").wantProblem(t, http.StatusForbidden, "bod")
	}
}

func TestMessages(t *testing.T) { inEachStore(t, testMessages) }

func testMessages(t *testing.T, r rig) {
	same := func(e *schemas.Event) { e.Envelope = r.event(1, schemas.Published).Envelope; e.Fingerprint = "" }
	r.keep(t, r.event(1, schemas.Published), r.event(2, schemas.Poisoned, same, failed("orders", "timeout")), r.event(3, schemas.Published))
	found := r.get(t, "/messages/m-1")
	messages, _ := found["messages"].([]any)
	if len(messages) != 1 {
		t.Fatalf("%v", found)
	}
	history, _ := member(messages[0], "history").([]any)
	if len(history) != 2 || member(history[1], "event", "action") != "poisoned" || member(messages[0], "event", "headers", "tenant") != "acme" {
		t.Errorf("%v", messages[0])
	}
	if text := member(messages[0], "event", "body", "text"); text != nil {
		t.Errorf("the body %v was not asked for", text)
	}
	whole := r.get(t, "/messages/m-1?body=true")
	if text := member(whole["messages"].([]any)[0], "event", "body", "text"); text != `{"order":1}` {
		t.Errorf("the body is %v", text)
	}
	r.do(t, http.MethodGet, "/messages/nobody", "").wantProblem(t, http.StatusNotFound, `"nobody"`)
}

// Bodies are never shown by a browser, whatever they claim to be.
func TestBodies(t *testing.T) { inEachStore(t, testBodies) }

func testBodies(t *testing.T, r rig) {
	body := "<script>alert(1)</script>\xff\x00"
	r.keep(t, r.event(1, schemas.Published, func(e *schemas.Event) {
		e.Envelope.Properties.ContentType, e.Envelope.Body = "text/html", []byte(body)
	}))
	got := r.do(t, http.MethodGet, "/messages/m-1/body", "")
	if string(got.body) != body || got.Header.Get("Content-Type") != "application/octet-stream" ||
		got.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(got.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("%q %v", got.body, got.Header)
	}
	r.keep(t, r.event(2, schemas.Published, func(e *schemas.Event) { e.Envelope.Properties.MessageID = "m-1" }))
	r.do(t, http.MethodGet, "/messages/m-1/body", "").wantProblem(t, http.StatusConflict, "several")
}

func TestConversation(t *testing.T) { inEachStore(t, testConversation) }

func testConversation(t *testing.T, r rig) {
	first := r.event(1, schemas.Published)
	second := r.event(2, schemas.Published, func(e *schemas.Event) { e.Parent = first.Fingerprint; e.Envelope.Properties.CorrelationID = "c" })
	r.keep(t, first, second,
		r.event(3, schemas.Poisoned, failed("orders", "no"), func(e *schemas.Event) { e.Envelope.Properties.CorrelationID = "c" }),
		r.event(4, schemas.Published, func(e *schemas.Event) { e.Envelope.Headers["causation-id"] = second.Fingerprint }),
		r.event(5, schemas.Published))
	for _, id := range []string{"m-1", "m-2", "m-3", "m-4"} {
		messages, _ := r.get(t, "/messages/"+id+"/conversation")["messages"].([]any)
		var list []string
		for _, m := range messages {
			list = append(list, fmt.Sprint(member(m, "message_id"), " ", member(m, "state")))
		}
		if got := strings.Join(list, ", "); got != "m-1 published, m-2 published, m-3 failed, m-4 published" {
			t.Errorf("with %s: %s", id, got)
		}
	}
}

func TestExport(t *testing.T) { inEachStore(t, testExport) }

func testExport(t *testing.T, r rig) {
	var events []schemas.Event
	for n := range 3 {
		events = append(events, r.event(n+1, schemas.Published))
	}
	r.keep(t, events...)
	got := r.do(t, http.MethodGet, "/events/export"+query("query", "*", "limit", "2"), "")
	lines := strings.Split(strings.TrimSpace(string(got.body)), "\n")
	if len(lines) != 2 || got.Header.Get("Content-Type") != "application/x-ndjson" || got.Trailer.Get("Watership-Unreadable") != "0" {
		t.Fatalf("%v %v %s", got.Header, got.Trailer, got.body)
	}
	for i, line := range lines {
		e, err := schemas.ParseDocument([]byte(line))
		if err != nil || e.EventID != events[i].EventID || string(e.Envelope.Body) != string(events[i].Envelope.Body) {
			t.Errorf("%s: %v", line, err)
		}
	}
	r.do(t, http.MethodGet, "/events/export", "").wantProblem(t, http.StatusBadRequest, "expected query")
}

// A query of spaces finds all events, which only the query "*" may ask for where that has consequences.
func TestBlankQueriesSelectNothing(t *testing.T) {
	inEachStore(t, func(t *testing.T, r rig) {
		r.keep(t, r.event(1, schemas.Poisoned))
		for path, body := range map[string]string{
			"/events/export" + query("query", " ", "dsl", " "): "",
			"/failures/discard": `{"query":" ","dry_run":true}`,
			"/failures/resolve": `{"query":" ","dry_run":true}`,
			"/replays/plan":     `{"query":" ","target":{"kind":"failed_queue"}}`,
			"/replays":          `{"query":"\t","target":{"kind":"failed_queue"}}`,
			"/waiting/decide":   `{"query":" ","action":"now","reason":"x"}`,
		} {
			method := http.MethodPost
			if body == "" {
				method = http.MethodGet
			}
			r.do(t, method, path, body).wantProblem(t, http.StatusBadRequest, "expected query")
		}
	})
}

// What a query finds tells about bodies, so a search in bodies is recorded, once for a request.
func TestSearchesInBodiesAreRecorded(t *testing.T) {
	inEachStore(t, func(t *testing.T, r rig) {
		r.keep(t, r.event(1, schemas.Published))
		r.recorder.take("")
		const search = "body.json.card: 4929*"
		paths := []string{"/events", "/events/count", "/events/histogram", "/failures", "/failures/groups", "/waiting"}
		for _, path := range paths {
			r.do(t, http.MethodGet, path+query("query", search), "")
			if found := r.recorder.take("search bodies"); len(found) != 1 || found[0] != search {
				t.Errorf("%s: recorded %q", path, found)
			}
			r.do(t, http.MethodGet, path+query("query", "action: poisoned and headers.body: x"), "")
			if found := r.recorder.take("search bodies"); len(found) != 0 {
				t.Errorf("%s: recorded %q of a query on headers", path, found)
			}
		}
		r.do(t, http.MethodGet, "/events/count"+query("query", "4929"), "")
		if found := r.recorder.take("search bodies"); len(found) != 1 {
			t.Errorf("a text in all fields: %q", found)
		}
		r.do(t, http.MethodPost, "/replays/plan", `{"query":"`+search+`","target":{"kind":"failed_queue"}}`)
		if found := r.recorder.take("search bodies"); len(found) != 1 {
			t.Errorf("a plan: %q", found)
		}
	})
}
