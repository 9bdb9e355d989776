package console_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"image"
	"image/png"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// keep stores events of messages.
func (s served) keep(t *testing.T, events ...schemas.Event) {
	t.Helper()
	store, err := s.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	documents := make([]schemas.Document, len(events))
	for i, e := range events {
		if e.Fingerprint == "" {
			e.Fingerprint = e.Envelope.Fingerprint()
		}
		if e.Time.IsZero() {
			e.Time = time.Now().Add(-time.Hour)
		}
		e.EventID, e.Sequence, e.TimeSource, e.BodySize = fmt.Sprint(t.Name(), "/", len(s.url), i, time.Now().UnixNano()), e.Time.UnixMicro()+int64(i), wire.TimeOfEvent, len(e.Envelope.Body)
		documents[i] = schemas.DocumentFormat{}.Document(e)
	}
	if _, err := store.Create(t.Context(), documents); err != nil {
		t.Fatal(err)
	}
}

// published is the event of a message with an id and a body.
func published(id, body string, headers amqp.Table) schemas.Event {
	return schemas.Event{Action: schemas.Published, Envelope: schemas.Envelope{
		Exchange: "shop", RoutingKey: "order.placed", Headers: headers, Body: []byte(body), Properties: schemas.Properties{MessageID: id},
	}}
}

// fields returns the fields of the form of a page, as a browser without changes sends them.
func (d document) fields(t *testing.T) url.Values {
	t.Helper()
	values := url.Values{}
	attribute := func(tag, name string) (string, bool) {
		found := regexp.MustCompile(`\s` + name + `(="([^"]*)")?(\s|>|$)`).FindStringSubmatch(tag)
		if found == nil {
			return "", false
		}
		return html.UnescapeString(found[2]), true
	}
	main := d.text[strings.Index(d.text, "<main"):]
	for _, tag := range regexp.MustCompile(`<input [^>]*>`).FindAllString(main, -1) {
		name, _ := attribute(tag, "name")
		kind, _ := attribute(tag, "type")
		if _, checked := attribute(tag, "checked"); (kind == "radio" || kind == "checkbox") && !checked {
			continue
		}
		value, _ := attribute(tag, "value")
		values.Add(name, value)
	}
	for _, found := range regexp.MustCompile(`(?s)<select name="([^"]*)".*?</select>`).FindAllStringSubmatch(main, -1) {
		selected := regexp.MustCompile(`<option selected>([^<]*)`).FindStringSubmatch(found[0])
		values.Add(found[1], selected[1])
	}
	for _, found := range regexp.MustCompile(`(?s)<textarea [^>]*name="([^"]*)"[^>]*>\n?(.*?)</textarea>`).FindAllStringSubmatch(main, -1) {
		values.Add(found[1], strings.ReplaceAll(html.UnescapeString(found[2]), "\n", "\r\n"))
	}
	if values.Get("key") == "" {
		t.Fatalf("%s has no form:\n%s", d.Request.URL, d.words(t))
	}
	return values
}

// The page tells the life of a message, where it is now, and what it consists of.
func TestMessageThatFailed(t *testing.T) {
	s := newSystem(t)
	s.broken.Store(true)
	s.publish(t, "m-1", `{"order":1,"lines":[{"item":"violin"}]}`, amqp.Table{"tenant": "acme", "n": int32(7), "nested": amqp.Table{"deep": []any{true, "x"}}})
	s.await(t, 1, "action: poisoned")
	s.await(t, 1, "action: published")
	page := s.get(t, "/messages/m-1")
	page.want(t, http.StatusOK, "Message m-1", "orders failed given up", "Fingerprint v1:", "to exchange shop with routing key order.placed",
		"poisoned at queue orders , attempt 1", "no table for order m-1", "tenant string acme", "n int32 7", "deep array", "message_id m-1", "content_type application/json",
		`"item" : "violin"`, "No other message belongs to this one", "Replay to the queue that failed", "Discard", "Class, rule and further attempts")
	s.get(t, "/messages/m-1/explain").want(t, http.StatusOK, "Retries of m-1", "Queue orders", "Class default", "Attempt 1 of 4 failed", "Then given up")
	s.get(t, "/messages/nobody/explain").want(t, http.StatusNotFound, "nobody")
	e := s.only(t, "action: poisoned")
	for _, link := range []string{
		"/replays/new?" + url.Values{"ids": {e.EventID}, "target": {"failed_queue"}, "since": {"all"}}.Encode(),
		"/replays/new?" + url.Values{"ids": {e.EventID}, "target": {"origin"}, "since": {"all"}}.Encode(),
	} {
		if !strings.Contains(page.text, `href="`+strings.ReplaceAll(link, "&", "&amp;")+`"`) {
			t.Errorf("no link to %s", link)
		}
	}
	for _, id := range []string{e.Fingerprint, e.EventID} {
		s.get(t, "/messages/"+url.PathEscape(id)).want(t, http.StatusOK, "Message m-1")
	}
}

// only returns the only event of a query.
func (s served) only(t *testing.T, query string) schemas.Event {
	t.Helper()
	found := s.events(t, query)
	if len(found) != 1 {
		t.Fatalf("%d events match %s", len(found), query)
	}
	return found[0]
}

// The page is read again only while something is expected to happen.
func TestMessageRefreshes(t *testing.T) {
	s := newSystem(t)
	failed := schemas.Event{Action: schemas.RetryScheduled, State: schemas.State{Queue: "orders", Message: "i", Attempt: 1, Delay: time.Hour + time.Minute, Failure: schemas.Failure{Message: "busy"}}}
	failed.Envelope = published("waits", "", nil).Envelope
	s.keep(t, published("waits", "", nil), failed, published("settled", "", nil))
	overdue := failed
	overdue.Envelope.Properties.MessageID, overdue.Delay = "overdue", time.Second
	s.keep(t, overdue)
	for id, want := range map[string]bool{"waits": true, "settled": false, "overdue": false, "unknown": true} {
		if got := strings.Contains(s.get(t, "/messages/"+id).text, "data-refresh="); got != want {
			t.Errorf("%s refreshes: %v, want %v", id, got, want)
		}
	}
	s.get(t, "/messages/waits").want(t, http.StatusOK, "orders waiting next attempt in", "next attempt at queue orders", "busy")
	s.get(t, "/messages/overdue").want(t, http.StatusOK, "nothing has been reported since")
}

// Each access to a body is recorded, and so a page that is read again reads none.
func TestRefreshesReadNoBodies(t *testing.T) {
	s := newSystem(t)
	s.keep(t, published("m-1", "carrot", nil))
	for range 3 {
		s.get(t, "/messages/m-1", "Watership-Refresh", "yes").want(t, http.StatusOK, "Show the body")
	}
	s.get(t, "/messages/m-1").want(t, http.StatusOK, "carrot")
	const reads = `action: audited and audit.operation: "read bodies"`
	s.await(t, 1, reads)
	s.only(t, reads)
}

func TestMessageIsUnknown(t *testing.T) {
	s := newSystem(t)
	for _, id := range []string{"nothing", "%00", "%FF", "a%2Fb", "%E2%80%AE", "%3C%2Fscript%3E", strings.Repeat("x", 1024)} {
		page := s.get(t, "/messages/"+id)
		page.want(t, http.StatusNotFound, "No message has this id", "is not in the store yet", "Refresh")
		if strings.Contains(page.text, "\u202e") || strings.Contains(page.text, "</script></") {
			t.Errorf("%s: the page has the id as it is", id)
		}
	}
	s.get(t, "/messages/"+strings.Repeat("x", 1025)).want(t, http.StatusUnprocessableEntity)
}

// Several messages with an id have a page each.
func TestMessagesWithTheSameID(t *testing.T) {
	s := newSystem(t)
	one, two := published("same/id", `{"n":1}`, nil), published("same/id", `{"n":2}`, nil)
	s.keep(t, one, two)
	page := s.get(t, "/messages/same%2Fid")
	page.want(t, http.StatusOK, "2 messages have the id same/id", `"n" : 1`)
	other := "/messages/same%2Fid?" + url.Values{"message": {two.Envelope.Fingerprint()}}.Encode()
	if !strings.Contains(page.text, `href="`+other+`"`) {
		t.Errorf("no link to %s", other)
	}
	s.get(t, other).want(t, http.StatusOK, `"n" : 2`)
	for n := range 30 {
		s.keep(t, published("many", fmt.Sprint(n), nil))
	}
	s.get(t, "/messages/many").want(t, http.StatusOK, "More than 20 messages have the id many")
}

func TestBodyViews(t *testing.T) {
	s := newSystem(t)
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("long ", 100)
	s.keep(t, published("json", `{"a":[1,{"b":null}],"big":12345678901234567890,"long":"`+long+`","line":"x\ny"}`, nil), published("text", "plain\ntext", nil),
		published("binary", strings.Repeat("\x00\xffAB", 2000), nil), published("png", picture.String(), nil), published("none", "", nil),
		published("svg", `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`, nil),
		published("deep", strings.Repeat("[", 500)+strings.Repeat("]", 500), nil), published("wide", "["+strings.Repeat("1,", 5000)+"1]", nil),
		published("xml", "<a><b>text</b></a>", nil), published("large", strings.Repeat("x", 1<<20), nil))
	for path, texts := range map[string][]string{
		"json":                    {`"big" : 12345678901234567890`, "2 elements", `"b" : null`, "Whole text " + strings.TrimSpace(long), `"x\ny"`},
		"json?body=text":          {"\"a\": [ 1,"},
		"json?body=hex":           {`00000000 7b 22 61 22`, `{"a":[1,{"b":nul`},
		"json?body=image":         {`12345678901234567890`}, // not possible: the view that is
		"text":                    {"plain text"},
		"binary":                  {"00000000 00 ff 41 42", "..AB..AB", "Bytes 0 to 4,096 of 8,000", "Next"},
		"binary?body=hex&at=4100": {"00001000 00 ff 41 42", "Bytes 4,096 to 8,000 of 8,000", "Before"},
		"binary?body=hex&at=-1":   {"Bytes 0 to 4,096"},
		"binary?body=text":        {"\ufffdAB"},
		"none":                    {"The body is empty."},
		"svg":                     {"<script>alert(1)</script>"},
		"deep":                    {"1 more: see them as text"},
		"wide":                    {"3,002 more: see them as text"},
		"xml":                     {"<a> <b>text</b> </a>"},
		"large":                   {"This is the beginning.", "Download (1.0 MiB)"},
		"png":                     {"Image", "Hex"},
	} {
		s.get(t, "/messages/"+path).want(t, http.StatusOK, texts...)
	}
	if texts := s.get(t, "/messages/text").values(t, "data-copy"); !slices.Contains(texts, "plain\ntext") {
		t.Errorf("what can be copied: %q", texts)
	}
	page := s.get(t, "/messages/png")
	src := regexp.MustCompile(`<img class="picture" src="([^"]+)"`).FindStringSubmatch(page.text)
	if src == nil {
		t.Fatal("the page has no picture")
	}
	got := s.get(t, html.UnescapeString(src[1]))
	csp := got.Header.Values("Content-Security-Policy")
	if got.text != picture.String() || got.Header.Get("Content-Type") != "image/png" || got.Header.Get("X-Content-Type-Options") != "nosniff" ||
		len(csp) != 1 || csp[0] != "default-src 'none'; sandbox" {
		t.Errorf("%s %v", got.Status, got.Header)
	}
	for _, id := range []string{"svg", "text", "json", "binary"} {
		s.get(t, "/messages/"+id+"/image").want(t, http.StatusUnsupportedMediaType, "the body is no PNG")
		if page := s.get(t, "/messages/"+id+"?body=image"); strings.Contains(page.text, "<img class=") {
			t.Errorf("%s is shown as an image", id)
		}
	}
	download := regexp.MustCompile(`href="(/api/v1/messages/[^"]+/body)"`).FindStringSubmatch(s.get(t, "/messages/svg").text)
	if got := s.get(t, download[1]); !strings.HasPrefix(got.Header.Get("Content-Disposition"), "attachment") || !strings.HasPrefix(got.text, "<svg") {
		t.Errorf("%s %v", got.Status, got.Header)
	}
}

// No text of a message can change the page, however hostile or large.
func TestHostileMessages(t *testing.T) {
	s := newSystem(t)
	hostile := "</script><script>alert(1)</script>\u202e\x00\xff" + `"'><img src=x onerror=alert(1)>`
	headers := amqp.Table{hostile: hostile, "a-large": strings.Repeat("y", 1<<20), "bytes": []byte(hostile)}
	for n := range 1000 {
		headers[fmt.Sprint("header-", n)] = int64(n)
	}
	var deep any = "end"
	for range 100 {
		deep = amqp.Table{"in": []any{deep}}
	}
	headers["deep"] = deep
	e := published("", `{"`+strings.ReplaceAll(hostile, "\x00\xff", "")[:10]+`":"</script>\u202e"}`, headers)
	e.Envelope.Exchange, e.Envelope.RoutingKey = hostile, hostile
	e.Envelope.Properties = schemas.Properties{MessageID: "hostile", CorrelationID: hostile, Type: hostile, ContentType: "text/html", AppID: hostile}
	failed := e
	failed.Action, failed.State = schemas.Poisoned, schemas.State{Queue: hostile, Attempt: 1, Message: "i", Failure: schemas.Failure{
		Message: hostile + "\n" + strings.Repeat("z", 5000), Type: hostile, Class: hostile, Stack: hostile,
	}}
	s.keep(t, e, failed)
	for _, path := range []string{"/messages/hostile", "/messages/hostile?body=text", "/messages/hostile?body=hex", "/messages/hostile/discard"} {
		page := s.get(t, path)
		page.want(t, http.StatusOK)
		if len(page.text) > 1<<20 {
			t.Errorf("%s has %d bytes", path, len(page.text))
		}
		page.wantHarmless(t)
	}
	page := s.get(t, "/messages/hostile")
	page.want(t, http.StatusOK, "more: the event as JSON has all of them", "The first 64.0 KiB")
	address := regexp.MustCompile(`href="([^"]*)">the event as JSON`).FindStringSubmatch(page.text)
	if address == nil {
		t.Fatal("the page has no link to the event")
	}
	s.get(t, asBrowser(address[1])).want(t, http.StatusOK, `"action":"published"`)
	form := s.get(t, "/messages/hostile/copy")
	form.want(t, http.StatusOK, "The original has characters that no form can keep in: exchange, routing_key,")
	form.text = strings.ReplaceAll(form.text, "\u202e", "") // values of fields are as they are
	form.wantHarmless(t)
}

// wantHarmless checks that no text of a message is markup, or changes the direction.
func (d document) wantHarmless(t *testing.T) {
	t.Helper()
	for _, bad := range []string{"<script>alert", "<img src=x", "\u202e", "\x00", "\xff", " style="} {
		if at := strings.Index(d.text, bad); at >= 0 {
			t.Errorf("%s has %q: %q", d.Request.URL, bad, d.text[max(0, at-200):at+len(bad)])
		}
	}
}

// The failures that the form shows are discarded, once, with the reason.
func TestDiscardFromAMessage(t *testing.T) {
	s := newSystem(t)
	s.broken.Store(true)
	s.publish(t, "m-1", `{}`, nil)
	s.await(t, 1, "action: poisoned")
	form := s.get(t, "/messages/m-1/discard")
	form.want(t, http.StatusOK, "Discard the failures of message m-1", "queue orders", "Discard 1 failure")
	fields := form.fields(t)
	s.post(t, "/messages/m-1/discard", fields).want(t, http.StatusUnprocessableEntity, "a discard needs a reason", "Discard 1 failure")
	fields.Set("reason", "a test order")
	fields.Set("expect", "2")
	s.post(t, "/messages/m-1/discard", fields).want(t, http.StatusConflict, "1 failure matches, 2 expected: nothing was changed", "Discard 1 failure")
	fields.Set("expect", "1")
	fields.Set("key", "again")
	fields.Set("reason", "a test order")
	done := s.post(t, "/messages/m-1/discard", fields)
	done.want(t, http.StatusOK, "1 failure discarded.", "orders discarded", "discarded at queue orders : a test order (local)")
	s.post(t, "/messages/m-1/discard", fields).want(t, http.StatusOK, "1 failure discarded.") // the same request again
	if e := s.only(t, "action: discarded"); e.ReplayOf != s.only(t, "action: poisoned").EventID {
		t.Errorf("%+v", e.State)
	}
	s.get(t, "/messages/m-1/discard").want(t, http.StatusOK, "Nothing to discard")
	fields.Set("key", "another")
	s.post(t, "/messages/m-1/discard", fields).want(t, http.StatusConflict, "0 failures match, 1 expected: nothing was changed", "Nothing to discard")
	if strings.Contains(s.get(t, "/messages/m-1").text, "/discard") {
		t.Error("the page still offers to discard")
	}
}

// A copy is another message with the edited parts and all others as they were. It names
// its original, whose failures it resolves.
func TestCopyOfAMessage(t *testing.T) {
	s := newSystem(t)
	s.broken.Store(true)
	s.publish(t, "m-1", "{\n  \"customer\": null\n}", amqp.Table{"tenant": "acme", "small": int8(-3), "list": []any{"a", int32(1)}, "price": amqp.Decimal{Scale: 2, Value: 1999}})
	s.await(t, 1, "action: poisoned")
	s.await(t, 1, "action: published")
	s.broken.Store(false)
	form := s.get(t, "/messages/m-1/copy").fields(t)
	if form.Get("body") != "{\r\n  \"customer\": null\r\n}" || form.Get("exchange") != "shop" {
		t.Fatalf("%v", form)
	}
	if form.Has("resolve") {
		t.Error("a copy discards the failures of its original by default")
	}
	form.Set("resolve", "yes")
	form.Set("body", "{\r\n  \"customer\": hazel\r\n}")
	s.post(t, "/messages/m-1/copy", form).want(t, http.StatusUnprocessableEntity, "body: line 2 is not valid JSON", "Send the body as it is")
	form.Set("body", "{\r\n  \"customer\": \"hazel\"\r\n}")
	form.Set("header.4.name", "fixed-by")
	form.Set("header.4.value", "ada")
	s.post(t, "/messages/m-1/copy", form).want(t, http.StatusOK, "The copy was published.", "1 failure discarded.", "orders discarded", "replaced by the copy v1:")
	if link := regexp.MustCompile(`replaced by the copy <a class="mono" href="(/messages/v1:[^"]*)"`).FindStringSubmatch(s.get(t, "/messages/m-1").text); link == nil {
		t.Error("the copy has no link")
	} else {
		s.await(t, 2, "action: published")
		s.get(t, link[1]).want(t, http.StatusOK, "Message ")
	}
	s.post(t, "/messages/m-1/copy", form).want(t, http.StatusOK, "The copy was published.") // the same form again
	s.await(t, 1, "action: handled")
	s.await(t, 2, "action: published")
	original, copied := s.only(t, "message.id: m-1 and action: published"), s.only(t, "action: published and not message.id: m-1")
	h := copied.Envelope.Headers
	if string(copied.Envelope.Body) != "{\n  \"customer\": \"hazel\"\n}" || h["causation-id"] != original.Fingerprint || h["fixed-by"] != "ada" ||
		h["small"] != int8(-3) || fmt.Sprint(h["list"], h["price"]) != "[a 1] {2 1999}" || copied.Envelope.RoutingKey != "order.placed" {
		t.Errorf("%q %#v", copied.Envelope.Body, h)
	}
	if id := copied.Envelope.Properties.MessageID; id == "" || id == "m-1" {
		t.Errorf("the copy has the message id %q", id)
	}
	s.get(t, "/messages/m-1").want(t, http.StatusOK, "2 messages. A message is below")
	for _, e := range s.events(t, "action: discarded") {
		if !strings.Contains(e.Failure.Message, copied.Fingerprint) {
			t.Errorf("the reason is %q", e.Failure.Message)
		}
	}
}

// What is recorded of a redacted message is sent to nobody.
func TestCopyOfARedactedMessage(t *testing.T) {
	s := newSystem(t)
	e := published("m-1", "mail_3f9a2c71d0b4e8aa0c1d", nil)
	s.keep(t, e)
	s.keep(t, func() schemas.Event {
		e.Envelope.Properties.MessageID, e.Envelope.Redacted, e.Redacted = "m-2", true, true
		return e
	}())
	form := s.get(t, "/messages/m-1/copy").fields(t)
	page := s.get(t, "/messages/m-2/copy")
	page.want(t, http.StatusConflict, "the message is redacted")
	if strings.Contains(page.text, "<form method=\"post\"") {
		t.Error("there is a form of a copy")
	}
	s.post(t, "/messages/m-2/copy", form).want(t, http.StatusConflict, "the message is redacted")
	if n := len(s.events(t, "action: published")); n != 2 {
		t.Errorf("%d messages", n)
	}
}

// An edit of a message that a replay has changed, and that failed again, begins with the change.
func TestCopyOfAChangedMessage(t *testing.T) {
	s := newSystem(t)
	s.broken.Store(true)
	s.publish(t, "m-1", `{"customer": null}`, nil)
	s.await(t, 1, "action: poisoned")
	s.await(t, 1, "action: published")
	const replay = `{"query":"action: poisoned","target":{"kind":"failed_queue"},"transform":".body.customer = \"hazel\""}`
	started, err := http.Post(s.url+"/api/v1/replays", "application/json", strings.NewReader(replay))
	if err != nil {
		t.Fatal(err)
	}
	started.Body.Close()
	s.await(t, 2, "action: poisoned")
	link := regexp.MustCompile(`href="([^"]+)"[^>]*>Send a copy<`).FindStringSubmatch(s.get(t, "/messages/m-1").text)
	if link == nil {
		t.Fatal("the page has no link to the form of a copy")
	}
	form := s.get(t, link[1]).fields(t)
	if form.Get("body") != `{"customer":"hazel"}` {
		t.Errorf("the form has the body %q", form.Get("body"))
	}
	if failures := form["failure"]; len(failures) != 1 {
		t.Errorf("the form resolves %q", failures)
	}
}

// An edit replaces the failure: the queue that failed gets the message with its id, and all that
// was not edited as it was, and the failure is resolved when the message is handled.
func TestEditOfAFailedMessage(t *testing.T) {
	s := newSystem(t)
	s.broken.Store(true)
	s.publish(t, "m-1", `{"customer": null, "total": 1.5}`, amqp.Table{"small": int8(-3), "tenant": "acme"})
	s.await(t, 1, "action: poisoned")
	s.await(t, 1, "action: published")
	s.broken.Store(false)
	page := s.get(t, "/messages/m-1")
	page.want(t, http.StatusOK, "Edit and replay")
	form := s.get(t, "/messages/m-1/edit").fields(t)
	edited := form.Get("message")
	for text, want := range map[string]string{
		edited: "the message was not edited", edited[:20]: "the message is not valid JSON", strings.Replace(edited, `"order.placed"`, `"order.other"`, 1): "send a copy",
	} {
		form.Set("message", text)
		s.post(t, "/messages/m-1/edit", form).want(t, http.StatusUnprocessableEntity, want)
	}
	form.Set("message", strings.Replace(edited, "null", `"hazel"`, 1))
	form.Set("reason", "the customer was missing")
	form.Set("do", "send")
	review := s.post(t, "/messages/m-1/edit", form)
	review.want(t, http.StatusOK, "To the queue orders , and to no other", "1 change", ".body.customer", "null", `"hazel"`, "Send to orders")
	if n := s.count(t, "action: replayed"); n != 0 {
		t.Errorf("%d messages were sent that nobody had reviewed", n)
	}
	form = review.fields(t)
	form.Set("do", "send")
	form.Set("message", strings.Replace(form.Get("message"), "hazel", "bigwig", 1))
	review = s.post(t, "/messages/m-1/edit", form)
	review.want(t, http.StatusOK, "Send to orders", `"bigwig"`) // another edit than the one that was reviewed
	form = review.fields(t)
	form.Set("message", strings.Replace(form.Get("message"), "bigwig", "hazel", 1))
	form = s.post(t, "/messages/m-1/edit", form).fields(t)
	form.Set("do", "send")
	s.post(t, "/messages/m-1/edit", form).want(t, http.StatusOK, "1 message", "the customer was missing")
	s.await(t, 1, "action: handled")
	replayed := s.only(t, "action: handled").Envelope
	if string(replayed.Body) != `{"customer":"hazel","total":1.5}` || replayed.Headers["small"] != int8(-3) || replayed.Properties.MessageID != "m-1" {
		t.Errorf("%s %v %s", replayed.Body, replayed.Headers, replayed.Properties.MessageID)
	}
	s.get(t, "/failures").want(t, http.StatusOK, "No unresolved failures")
	s.get(t, "/messages/m-1/edit").want(t, http.StatusConflict, "no unresolved failure")
	if n := s.count(t, "action: published"); n != 1 {
		t.Errorf("%d messages were published to the exchange, want 1", n)
	}
}

// An edit whose body is broken, or does not fit the schema of the route, is sent only by those who say so.
func TestEditsThatAreDoubtful(t *testing.T) {
	schema := filepath.Join(t.TempDir(), "order.json")
	if err := os.WriteFile(schema, []byte(`{"properties": {"total": {"minimum": 1}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSystem(t, `WATERSHIP_ROUTES=[{queue: checked, schema: `+schema+`, handler: {http: {url: "http://127.0.0.1:9/"}}}]`)
	failed := published("m-1", `{"total": 0}`, nil)
	failed.Action, failed.Queue, failed.Failure, failed.Envelope.Properties.ContentType = schemas.Poisoned, "checked", schemas.Failure{Message: "no"}, "application/json"
	s.keep(t, failed)
	form := s.get(t, "/messages/m-1/edit").fields(t)
	edited := form.Get("message")
	var members map[string]any
	if err := json.Unmarshal([]byte(edited), &members); err != nil {
		t.Fatal(err)
	}
	delete(members, "body")
	members["body_text"] = `{"total": 1, broken`
	broken, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		strings.Replace(edited, `"total": 0`, `"total": -1`, 1): "The body does not fit order.json", string(broken): "The body is not valid JSON",
	} {
		form.Set("message", text)
		review := s.post(t, "/messages/m-1/edit", form)
		review.want(t, http.StatusOK, want, "Send it anyway")
		again := review.fields(t)
		again.Del("anyway")
		again.Set("do", "send")
		s.post(t, "/messages/m-1/edit", again).want(t, http.StatusOK, want, "Send it anyway")
	}
	form.Set("message", strings.Replace(edited, `"total": 0`, `"total": 1`, 1))
	s.post(t, "/messages/m-1/edit", form).want(t, http.StatusOK, "The body fits order.json", "Send to checked")
	if n := s.count(t, "action: replayed"); n != 0 {
		t.Errorf("%d messages were sent", n)
	}
}

// A message without a body is edited as any other.
func TestEditWithoutABody(t *testing.T) {
	s := newSystem(t)
	failed := published("m-1", "", amqp.Table{"tenant": "acme"})
	failed.Action, failed.Queue, failed.Failure = schemas.Poisoned, "orders", schemas.Failure{Message: "no"}
	s.keep(t, failed)
	form := s.get(t, "/messages/m-1/edit").fields(t)
	form.Set("message", strings.Replace(form.Get("message"), "acme", "burrow", 1))
	s.post(t, "/messages/m-1/edit", form).want(t, http.StatusOK, "1 change", "Send to orders")
}

// A form with a mistake comes back with all that somebody has written.
func TestMistakesInACopy(t *testing.T) {
	s := newSystem(t)
	s.keep(t, published("m-1", "\x00\xff", amqp.Table{"n": int32(7)}))
	page := s.get(t, "/messages/m-1/copy")
	fields := page.fields(t)
	if fields.Get("body_kind") != "base64" || fields.Get("body") != base64.StdEncoding.EncodeToString([]byte("\x00\xff")) {
		t.Fatalf("%v", fields)
	}
	for want, change := range map[string][2]string{
		`header "n": expected a value of type int32, found "seven"`: {"header.0.value", "seven"},
		"body: expected base64":      {"body", "?"},
		"expected an integer":        {"header.0.value", "3000000000"},
		"is one of Watership's own":  {"exchange", "watership.events"},
		"priority \"300\": expected": {"property.priority", "300"},
		"exchange":                   {"exchange", "nowhere"},
	} {
		changed := url.Values{}
		for name, values := range fields {
			changed[name] = values
		}
		changed.Set(change[0], change[1])
		got := s.post(t, "/messages/m-1/copy", changed)
		if got.StatusCode < 400 || !strings.Contains(got.words(t), want) {
			t.Errorf("%v: %s, want %q\n%s", change, got.Status, want, got.words(t))
		}
		if again := got.fields(t); again.Get(change[0]) != change[1] {
			t.Errorf("%s has become %q", change[0], again.Get(change[0]))
		}
	}
	fields.Set("body_kind", "original")
	fields.Set("routing_key", "order.again")
	fields.Set("header.0.drop", "yes")
	s.post(t, "/messages/m-1/copy", fields).want(t, http.StatusOK, "The copy was published.")
	s.await(t, 1, "routing_key: order.again and action: published")
	if e := s.only(t, "routing_key: order.again and action: published").Envelope; string(e.Body) != "\x00\xff" || e.Headers["n"] != nil {
		t.Errorf("%q %v", e.Body, e.Headers)
	}
}

// A copy for the queue that failed reaches no other queue.
func TestCopyToAQueue(t *testing.T) {
	s := newSystem(t)
	s.broken.Store(true)
	s.publish(t, "m-1", `{}`, nil)
	s.await(t, 1, "action: poisoned")
	s.broken.Store(false)
	form := s.get(t, "/messages/m-1/copy").fields(t)
	form.Set("queue", "orders")
	form.Del("resolve")
	s.post(t, "/messages/m-1/copy", form).want(t, http.StatusOK, "The copy was published.", "orders failed")
	s.await(t, 1, "action: handled")
	if e := s.only(t, "action: handled").Envelope; e.Exchange != "" || e.RoutingKey != "orders" {
		t.Errorf("%+v", e)
	}
}

// Viewers see no button that they may not press, bodies only with the permission, and
// nothing of other queues.
func TestRolesOnAMessage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	tokens := access.OpenTokenFile(path)
	secrets := map[string]string{}
	for _, token := range []access.Token{
		{Name: "ada", Role: access.Operator, Bodies: true},
		{Name: "bob", Role: access.Viewer},
		{Name: "eve", Role: access.Viewer, Bodies: true, Queues: []string{"other"}},
		{Name: "kim", Role: access.Operator},
	} {
		secret, err := tokens.Create(token)
		if err != nil {
			t.Fatal(err)
		}
		secrets[token.Name] = "Bearer " + secret
	}
	s := newSystem(t, "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+path)
	as := func(name, path string) document { return s.get(t, path, "Authorization", secrets[name]) }
	s.broken.Store(true)
	s.publish(t, "m-1", `{"secret":"carrot"}`, nil)
	s.await(t, 1, "action: poisoned")
	as("ada", "/messages/m-1").want(t, http.StatusOK, "carrot", "Discard")
	bob := as("bob", "/messages/m-1")
	bob.want(t, http.StatusOK, "You may not read bodies.", "orders failed")
	for _, hidden := range []string{"carrot", "/replays/new", "/copy\"", "/discard\""} {
		if strings.Contains(bob.text, hidden) {
			t.Errorf("bob sees %s", hidden)
		}
	}
	for _, path := range []string{"/messages/m-1/copy", "/messages/m-1/discard", "/messages/m-1/image"} {
		as("bob", path).want(t, http.StatusForbidden)
	}
	as("eve", "/messages/m-1").want(t, http.StatusNotFound, "that you may not see")
	kim := as("kim", "/messages/m-1/copy")
	kim.want(t, http.StatusOK, "You may not read the body of the original. Write the body of the copy.")
	if strings.Contains(kim.text, "carrot") {
		t.Error("kim sees the body")
	}
	for _, action := range []string{"copy", "discard"} {
		got := s.do(t, http.MethodPost, "/messages/m-1/"+action, kim.fields(t), "Authorization", secrets["bob"], "Content-Type", "application/x-www-form-urlencoded")
		got.want(t, http.StatusForbidden)
	}
}

// Headers beyond those of most messages are folded.
func TestManyHeaders(t *testing.T) {
	s := newSystem(t)
	few, many := amqp.Table{}, amqp.Table{}
	for i := range 23 {
		if many[fmt.Sprint("header-", i)] = "x"; i < 20 {
			few[fmt.Sprint("header-", i)] = "x"
		}
	}
	s.keep(t, published("few", "", few), published("many", "", many))
	s.get(t, "/messages/many").want(t, http.StatusOK, "3 more headers", "header-22")
	s.get(t, "/messages/few").without(t, "more header")
}

// A message of a conversation has its state, and not each of its events.
func TestConversationStates(t *testing.T) {
	s := newSystem(t)
	handled := published("m-1", "a", nil)
	handled.Action, handled.State = schemas.Handled, schemas.State{Queue: "orders", Attempt: 1}
	of := func(e schemas.Event) schemas.Event { e.Envelope.Properties.CorrelationID = "c"; return e }
	s.keep(t, of(published("m-1", "a", nil)), of(handled), of(published("m-2", "b", nil)))
	page := s.get(t, "/messages/m-1")
	_, tree, _ := strings.Cut(page.text, `<ul class="tree">`)
	badges := regexp.MustCompile(`<span class="badge [^"]*">([^<]*)</span>`).FindAllStringSubmatch(tree, -1)
	if len(badges) != 2 || badges[0][1] != "handled" || badges[1][1] != "no report" {
		t.Errorf("%q", badges)
	}
}

// Messages that handlers published for one another are a tree, whatever publishers claim.
func TestConversationTree(t *testing.T) {
	s := newSystem(t)
	caused := func(id, by string) schemas.Event {
		e := published(id, id, amqp.Table{"causation-id": by})
		e.Envelope.Properties.CorrelationID = "c"
		return e
	}
	s.keep(t, caused("root", "gone"), caused("child", "root"), caused("grandchild", "child"), caused("circle-1", "circle-2"), caused("circle-2", "circle-1"), caused("self", "self"))
	page := s.get(t, "/messages/child")
	page.want(t, http.StatusOK, "6 messages.")
	_, tree, _ := strings.Cut(page.text, `<ul class="tree">`)
	depth, depths := 0, map[string]int{}
	for _, token := range regexp.MustCompile(`<ul|</ul>|<span class="mono">[a-z0-9-]+</span></a>`).FindAllString(tree, -1) {
		switch token {
		case "<ul":
			depth++
		case "</ul>":
			depth--
		default:
			depths[strings.TrimSuffix(strings.TrimPrefix(token, `<span class="mono">`), "</span></a>")] = depth
		}
	}
	for id, want := range map[string]int{"root": 0, "child": 1, "grandchild": 2, "circle-1": 0, "circle-2": 0, "self": 0} {
		if got, found := depths[id]; got != want || !found {
			t.Errorf("%s is at depth %d (%v), want %d", id, got, found, want)
		}
	}
}

// Quarantined events and bodies that the store does not have are explained.
func TestMessageOutsideOfTheStore(t *testing.T) {
	s := newSystem(t)
	e := published("m-1", "", nil)
	e.BodyIn = schemas.BodyInUnstorable
	refused := published("m-1", "", nil)
	refused.Action, refused.State = schemas.Poisoned, schemas.State{Queue: "orders", Attempt: 1, Failure: schemas.Failure{Message: "no such table"}}
	refused = refused.Quarantine("limit of total fields [1000] has been exceeded")
	refused.BodyIn = schemas.BodyInUnstorable
	s.keep(t, e, refused)
	s.get(t, "/messages/m-1").want(t, http.StatusOK, "too large for the store. It is in the queue of unstorable messages", "poisoned quarantined",
		"The store refused the event: limit of total fields", "no such table", "orders failed")
}

// Only a form makes a page say that something was done, and not a link that somebody sent.
func TestLinksClaimNothing(t *testing.T) {
	s := newSystem(t)
	s.keep(t, published("m-1", "carrot", nil))
	done := s.post(t, "/messages/m-1/copy", s.get(t, "/messages/m-1/copy").fields(t))
	done.want(t, http.StatusOK, "The copy was published.")
	if !strings.Contains(done.text, "data-refresh=") {
		t.Error("the page after a form is not read again")
	}
	signed := done.Request.URL.Query().Get("done")
	if signed == "" {
		t.Fatalf("the form led to %s", done.Request.URL)
	}
	payload, signature, _ := strings.Cut(signed, ".")
	forged := base64.RawURLEncoding.EncodeToString([]byte("discarded=999&at=" + fmt.Sprint(time.Now().UnixMilli())))
	for _, link := range []string{
		"/messages/m-1?discarded=999&copied=x", "/messages/m-1?done=" + forged, "/messages/m-1?done=" + forged + "." + signature,
		"/messages/m-1?done=" + payload, "/messages/m-1?done=%00", "/failures?discarded=999", "/failures?done=" + signed, "/routes?done=" + signed,
		"/routes?done=paused&queue=orders",
	} {
		for _, claim := range []string{"was published", "999 failures", "is paused", `class="done"`} {
			if page := s.get(t, link); strings.Contains(page.text, claim) {
				t.Errorf("%s says %q", link, claim)
			}
		}
	}
}
