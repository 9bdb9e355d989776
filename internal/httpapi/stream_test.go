package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/schemas"
)

// A stream has its messages in pages, by version, and what became of them.
func TestStreams(t *testing.T) {
	inEachStore(t, testStreams, "WATERSHIP_STORE_RETENTION_TRAFFIC=0") // these events are old
}

func testStreams(t *testing.T, r rig) {
	in := func(version int64) func(*schemas.Event) {
		return func(e *schemas.Event) {
			e.Stream = schemas.MessageStream{ID: "order/42 ü", Version: version, HasVersion: true}
		}
	}
	bank := func(e *schemas.Event) { e.Envelope.Exchange = "bank" }
	first := r.event(2, schemas.Published, in(0))
	r.keep(t, r.event(1, schemas.Published, in(1)), first,
		r.event(3, schemas.Poisoned, in(0), failed("orders", "timeout"), func(e *schemas.Event) { e.Envelope, e.Fingerprint = first.Envelope, first.Fingerprint }),
		r.event(4, schemas.Published, in(2), bank), r.event(5, schemas.Published, in(3)))
	const path = "/streams/order%2F42%20%C3%BC"
	if got := pagesOf(t, r, path+"?limit=2"); got != "0 m-2 orders=failed, 1 m-1, 2 m-4, 3 m-5" {
		t.Errorf("the stream is %s", got)
	}
	whole := r.get(t, path)
	for name, want := range map[string]any{"id": "order/42 ü", "order": "version", "total": 4.0, "more": false, "limited": false, "reversed": 1.0, "cursor": nil} {
		if whole[name] != want {
			t.Errorf("%s is %v, want %v", name, whole[name], want)
		}
	}
	limited := r.as(t, access.Token{Name: "bob", Role: access.Viewer, Queues: []string{"mails"}, Exchanges: []string{"shop"}})
	if got := pagesOf(t, limited, path); got != "0 m-2, 1 m-1, 3 m-5" {
		t.Errorf("bob sees %s", got)
	}
	of := limited.get(t, path)
	if gaps := fmt.Sprint(of["gaps"]); gaps != "[map[from:2 to:2]]" || of["limited"] != true {
		t.Errorf("bob sees the gaps %s, limited is %v", gaps, of["limited"])
	}
	other := r.as(t, access.Token{Name: "eve", Role: access.Viewer, Exchanges: []string{"mail"}})
	other.do(t, http.MethodGet, path, "").wantProblem(t, http.StatusNotFound, `no message is of the stream "order/42 ü"`)
	r.do(t, http.MethodGet, "/streams/nobody", "").wantProblem(t, http.StatusNotFound, `"nobody"`)
	for _, cursor := range []string{"e", "eyJ4IjoxfQ"} { // the second is {"x":1}
		r.do(t, http.MethodGet, path+"?cursor="+cursor, "").wantProblem(t, http.StatusBadRequest, "the cursor cannot be read")
	}
	r.do(t, http.MethodGet, path+"?limit=501", "").wantProblem(t, http.StatusUnprocessableEntity, "")
}

// An event that happens later is on no later page, and shifts none.
func TestStreamsGrow(t *testing.T) { inEachStore(t, testStreamsGrow) }

func testStreamsGrow(t *testing.T, r rig) {
	in := func(version int64) func(*schemas.Event) {
		return func(e *schemas.Event) { e.Stream = schemas.MessageStream{ID: "s", Version: version, HasVersion: true} }
	}
	r.keep(t, r.event(1, schemas.Published, in(1)), r.event(2, schemas.Published, in(3)), r.event(3, schemas.Published, in(5)))
	page := r.get(t, "/streams/s?limit=1")
	r.keep(t, r.event(4, schemas.Published, in(0)), r.event(5, schemas.Published, in(4)))
	if got := pagesOf(t, r, "/streams/s?limit=1&cursor="+page["cursor"].(string)); got != "3 m-2, 5 m-3" {
		t.Errorf("the pages after the first are %s", got)
	}
}

// pagesOf reads a stream from a path on, and prints its messages.
func pagesOf(t *testing.T, r rig, path string) string {
	t.Helper()
	var messages []string
	for cursor := ""; ; {
		from := path
		if cursor != "" {
			before, _, _ := strings.Cut(path, "&cursor=")
			from = before + "&cursor=" + cursor
		}
		page := r.get(t, from)
		for _, m := range page["messages"].([]any) {
			text := fmt.Sprint(member(m, "version"), " ", member(m, "message_id"))
			for _, at := range member(m, "queues").([]any) {
				text += fmt.Sprint(" ", member(at, "queue"), "=", member(at, "state"))
			}
			messages = append(messages, text)
		}
		next, more := page["cursor"].(string)
		if !more || len(messages) > 1000 {
			return strings.Join(messages, ", ")
		}
		cursor = next
	}
}
