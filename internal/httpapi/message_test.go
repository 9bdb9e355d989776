package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/schemas"
)

// The state of a message at each queue follows from its events, as the outcomes of its
// failures do.
func TestQueuesOfAMessage(t *testing.T) { inEachStore(t, testQueuesOfAMessage) }

func testQueuesOfAMessage(t *testing.T, r rig) {
	ofMessage := func(of int) func(*schemas.Event) {
		return func(e *schemas.Event) { e.Envelope, e.Fingerprint = r.event(of, schemas.Published).Envelope, "" }
	}
	at := func(queue, instance string) func(*schemas.Event) {
		return func(e *schemas.Event) { e.Queue, e.Message, e.Attempt = queue, instance, 2 }
	}
	again := func(e *schemas.Event) { e.Delay = time.Minute }
	replay := func(of int) func(*schemas.Event) {
		return func(e *schemas.Event) { e.Replay, e.ReplayOf = "job", r.event(of, schemas.Poisoned).EventID }
	}
	anonymous := func(e *schemas.Event) { e.Envelope.Properties.MessageID = ""; e.Fingerprint = "" }
	tests := []struct {
		events func(n int) []schemas.Event
		want   string
	}{
		{func(n int) []schemas.Event { return nil }, ""},
		{func(n int) []schemas.Event { return []schemas.Event{r.event(n+1, schemas.Handled, at("orders", ""))} }, "orders handled 1"},
		{func(n int) []schemas.Event {
			return []schemas.Event{r.event(n+1, schemas.RetryScheduled, at("orders", "i"), again)}
		}, "orders waiting 1 until 61"},
		{func(n int) []schemas.Event {
			return []schemas.Event{r.event(n+1, schemas.RetryScheduled, at("orders", "i"), again), r.event(n+2, schemas.Handled, at("orders", "i"))}
		}, "orders handled 2"},
		{func(n int) []schemas.Event {
			return []schemas.Event{
				r.event(n+1, schemas.RetryScheduled, at("orders", "i"), again), r.event(n+2, schemas.Poisoned, at("orders", "i")),
				r.event(n+3, schemas.Handled, at("billing", "")),
			}
		}, "billing handled 3, orders failed 2 open 1"},
		{func(n int) []schemas.Event {
			return []schemas.Event{r.event(n+1, schemas.Poisoned, at("orders", "i")), r.event(n+2, schemas.Discarded, at("orders", "i"), replay(n+1))}
		}, "orders discarded 2"},
		{func(n int) []schemas.Event { // the consumer has no handled event, so it reports nothing
			return []schemas.Event{r.event(n+1, schemas.Poisoned, at("silent", "i")), r.event(n+2, schemas.Replayed, replay(n+1))}
		}, "silent replayed 2"},
		{func(n int) []schemas.Event {
			return []schemas.Event{r.event(n+1, schemas.Poisoned, at("orders", "i")), r.event(n+2, schemas.Replayed, replay(n+1))}
		}, "orders replaying 2 open 1"},
		{func(n int) []schemas.Event { // to another queue, so the failure stays
			return []schemas.Event{r.event(n+1, schemas.Poisoned, at("orders", "i")), r.event(n+2, schemas.Replayed, at("other", ""), replay(n+1))}
		}, "orders failed 1 open 1"},
		{func(n int) []schemas.Event {
			return []schemas.Event{
				r.event(n+1, schemas.Poisoned, at("orders", "i")), r.event(n+2, schemas.Replayed, replay(n+1)),
				r.event(n+3, schemas.RetryScheduled, at("orders", "j"), again, replay(n+1)),
			}
		}, "orders waiting 3 open 1 until 63"},
		{func(n int) []schemas.Event {
			return []schemas.Event{
				r.event(n+1, schemas.Poisoned, at("orders", "i")), r.event(n+2, schemas.Replayed, replay(n+1)),
				r.event(n+3, schemas.Poisoned, at("orders", "j"), replay(n+1)),
			}
		}, "orders failed 3 open 1"},
		{func(n int) []schemas.Event {
			return []schemas.Event{
				r.event(n+1, schemas.Poisoned, at("orders", "i")), r.event(n+2, schemas.Replayed, replay(n+1)),
				r.event(n+3, schemas.Poisoned, at("orders", "j"), replay(n+1)), r.event(n+4, schemas.Replayed, replay(n+3)),
				r.event(n+5, schemas.Handled, at("orders", ""), replay(n+3)),
			}
		}, "orders handled 5"},
		{func(n int) []schemas.Event {
			return []schemas.Event{
				r.event(n+1, schemas.Poisoned, at("orders", "i")), r.event(n+2, schemas.Replayed, replay(n+1)),
				r.event(n+3, schemas.Poisoned, at("orders", "j"), replay(n+1)), r.event(n+4, schemas.Replayed, replay(n+3)),
			}
		}, "orders replaying 4 open 1"},
		{func(n int) []schemas.Event { // the replay is stored after the failure in it
			return []schemas.Event{
				r.event(n+1, schemas.Poisoned, at("silent", "i")), r.event(n+2, schemas.Poisoned, at("silent", "j"), replay(n+1)),
				r.event(n+3, schemas.Replayed, at("silent", "i"), replay(n+1)),
			}
		}, "silent failed 2 open 1"},
		{func(n int) []schemas.Event {
			return []schemas.Event{
				r.event(n+1, schemas.Poisoned, at("orders", "i"), anonymous), r.event(n+2, schemas.Poisoned, at("orders", "j"), anonymous),
				r.event(n+3, schemas.Discarded, at("orders", "j"), anonymous),
			}
		}, "orders failed 1 open 1"},
		{func(n int) []schemas.Event { // two equal messages without an id, of which one was replayed
			return []schemas.Event{
				r.event(n+1, schemas.Poisoned, at("orders", "i"), anonymous), r.event(n+2, schemas.Poisoned, at("orders", "j"), anonymous),
				r.event(n+3, schemas.Replayed, replay(n+1), anonymous),
			}
		}, "orders failed 2 open 2"},
		{func(n int) []schemas.Event {
			return []schemas.Event{r.event(n+1, schemas.Poisoned, at("orders", "i"), func(e *schemas.Event) { *e = e.Quarantine("no") })}
		}, "orders failed 1 open 1"},
	}
	begin := func(n int) int { return 100 * (n + 1) }
	var events []schemas.Event
	newest := make([]string, len(tests)) // ids
	for n, test := range tests {
		for _, e := range append([]schemas.Event{r.event(begin(n), schemas.Published)}, test.events(begin(n))...) {
			isAnonymous := e.Envelope.Properties.MessageID == ""
			ofMessage(begin(n))(&e)
			if isAnonymous {
				anonymous(&e)
			}
			e.Fingerprint = e.Envelope.Fingerprint()
			if e.Message != "" {
				e.Message += fmt.Sprint(n) // no two messages have the same instance id
			}
			events = append(events, e)
			newest[n] = e.EventID
		}
	}
	r.keep(t, events...)
	for n, test := range tests {
		message := r.get(t, "/messages/"+newest[n])["messages"].([]any)[0]
		var got []string
		queues, _ := member(message, "queues").([]any)
		for _, q := range queues {
			got = append(got, queueText(t, q, begin(n)))
		}
		if text := strings.Join(got, ", "); text != test.want {
			t.Errorf("message %d: %q, want %q", n, text, test.want)
		}
	}
}

// queueText describes the state of a message at a queue, with times in seconds after the
// begin of its test.
func queueText(t *testing.T, q any, begin int) string {
	t.Helper()
	second := func(name string) int {
		at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(member(q, name)))
		if err != nil {
			t.Fatal(err)
		}
		return int(at.Sub(happened)/time.Second) - begin
	}
	text := fmt.Sprint(member(q, "queue"), " ", member(q, "state"), " ", second("time"))
	if open := len(member(q, "failures").([]any)); open > 0 {
		text += fmt.Sprint(" open ", open)
	}
	if member(q, "until") != nil {
		text += fmt.Sprint(" until ", second("until"))
	}
	return text
}

// Handlers name the message that they handled by its message id. The conversation has the
// fingerprint in any case, and each step once.
func TestConversationByMessageIDs(t *testing.T) { inEachStore(t, testConversationByMessageIDs) }

func testConversationByMessageIDs(t *testing.T, r rig) {
	caused := func(by string) func(*schemas.Event) {
		return func(e *schemas.Event) { e.Envelope.Headers["causation-id"] = by }
	}
	handled := func(e *schemas.Event) {
		e.Envelope, e.Fingerprint, e.Queue = r.event(1, schemas.Published).Envelope, "", "orders"
	}
	r.keep(t, r.event(1, schemas.Published), r.event(6, schemas.Handled, handled), r.event(2, schemas.Published, caused("m-1")), r.event(3, schemas.Published, caused("m-2")),
		r.event(4, schemas.Published, caused("m-4")), r.event(5, schemas.Published))
	for _, id := range []string{"m-1", "m-2", "m-3"} {
		messages, _ := r.get(t, "/messages/"+id+"/conversation")["messages"].([]any)
		var got []string
		for _, m := range messages {
			got = append(got, fmt.Sprint(member(m, "message_id"), member(m, "actions"), " ", member(m, "state")))
			if len(got) > 1 && member(m, "parent") != member(messages[len(got)-2], "fingerprint") {
				t.Errorf("%s: the parent of %v is %v", id, member(m, "message_id"), member(m, "parent"))
			}
		}
		if text := strings.Join(got, " "); text != "m-1[published handled] handled m-2[published] published m-3[published] published" {
			t.Errorf("%s: %s", id, text)
		}
	}
}

// A copy has the headers of its original with their types, its body if nothing else is
// given, and is in the same conversation.
func TestCopies(t *testing.T) { onEvery(t, testCopies) }

func testCopies(t *testing.T, s served) {
	const typed = `"typed_headers":[{"key":"small","int8":-3},{"key":"price","decimal":{"scale":2,"value":1999}},{"key":"at","time":1700000000},` +
		`{"key":"list","array":[{"bool":true},{"string64":"/w=="}]},{"key":"large","int64":9007199254740993}]`
	s.post(t, "/messages", `{"exchange":"shop","routing_key":"order.created","base64":"AP8=",`+typed+`,"headers":{"tenant":"acme"},
		"properties":{"message_id":"m-1","expiration":"60000","timestamp":"2026-05-04T03:02:01Z"}}`)
	stored := func(id string) (e schemas.Event) {
		eventually(t, id+" is stored", func() bool {
			got := s.do(t, http.MethodGet, "/messages/"+id+"?body=true", "")
			if got.StatusCode != http.StatusOK {
				return false
			}
			var err error
			if e, err = schemas.ParseDocument([]byte(memberText(t, got.body))); err != nil {
				t.Fatal(err)
			}
			return e.BodyIn == schemas.BodyHere // an event of its handler may come first
		})
		return e
	}
	original := stored("m-1")
	h := original.Envelope.Headers
	if h["small"] != int8(-3) || h["large"] != int64(9007199254740993) || h["tenant"] != "acme" || fmt.Sprint(h["price"], h["list"]) != "{2 1999} [true \xff]" {
		t.Errorf("%#v", h)
	}
	if p := original.Envelope.Properties; p.Timestamp.Unix() != 1777863721 || p.Expiration != "60000" {
		t.Errorf("%+v", p)
	}
	sent := s.post(t, "/messages", `{"exchange":"shop","routing_key":"order.created","original":"m-1","original_body":true,`+typed+`}`, "Idempotency-Key", "k")
	copied := stored(sent["fingerprint"].(string))
	if string(copied.Envelope.Body) != "\x00\xff" || copied.Envelope.Headers["causation-id"] != original.Fingerprint || copied.Envelope.Headers["small"] != int8(-3) {
		t.Errorf("%+v", copied.Envelope)
	}
	messages, _ := s.get(t, "/messages/m-1/conversation")["messages"].([]any)
	if len(messages) != 2 || member(messages[1], "fingerprint") != copied.Fingerprint || member(messages[1], "parent") != original.Fingerprint {
		t.Errorf("%v", messages)
	}
	for request, want := range map[string]struct {
		status int
		detail string
	}{
		`"typed_headers":[{"key":"n","int8":128}]`:                              {http.StatusBadRequest, `headers: "n": `},
		`"typed_headers":[{"key":"n","int128":1}]`:                              {http.StatusBadRequest, "no type"},
		`"typed_headers":[{"key":"` + strings.Repeat("n", 256) + `","int8":1}]`: {http.StatusBadRequest, "longer than 255 bytes"},
		`"typed_headers":[{"key":"n","int8":1}],"headers":{"n":1}`:              {http.StatusBadRequest, `header "n" is given twice`},
		`"typed_headers":[{"key":"watership-queue","string":"x"}]`:              {http.StatusBadRequest, "Watership's own"},
		`"original_body":true`:                                                  {http.StatusBadRequest, "original_body is for copies"},
		`"original":"m-1","original_body":true,"text":"x"`:                      {http.StatusBadRequest, "cannot be combined"},
		`"original":"nobody"`:                                                   {http.StatusNotFound, `"nobody"`},
		`"properties":{"expiration":"soon"}`:                                    {http.StatusUnprocessableEntity, "validation"},
	} {
		s.do(t, http.MethodPost, "/messages", `{"exchange":"shop","routing_key":"order.created",`+request+`}`).wantProblem(t, want.status, want.detail)
	}
	limited := s.as(t, access.Token{Name: "bob", Role: access.Operator, Exchanges: []string{"other"}})
	limited.do(t, http.MethodPost, "/messages", `{"exchange":"other","original":"m-1"}`).wantProblem(t, http.StatusNotFound, `"m-1"`)
	blind := s.as(t, access.Token{Name: "eve", Role: access.Operator})
	blind.do(t, http.MethodPost, "/messages", `{"exchange":"shop","original":"m-1","original_body":true}`).wantProblem(t, http.StatusForbidden, "bodies")
}

// memberText returns the event of the first message of a response as it is written.
func memberText(t *testing.T, body []byte) string {
	t.Helper()
	var found struct {
		Messages []struct {
			Event json.RawMessage `json:"event"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &found); err != nil || len(found.Messages) == 0 {
		t.Fatalf("%v: %s", err, body)
	}
	return string(found.Messages[0].Event)
}
