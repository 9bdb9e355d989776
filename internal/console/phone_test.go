package console_test

import (
	"fmt"
	"net/url"
	"path"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// longValues fills a system with values that are as long as people make them. It returns the ids of a
// job, of a group of failures and of a message.
func (s served) longValues(t *testing.T) (job, group, message string) {
	t.Helper()
	long := strings.Repeat("a-very-long-word", 12)
	message = "order-" + long[:100]
	s.publish(t, "order-handled", `{"order":7,"items":["lettuce"]}`, amqp.Table{"tenant": "acme"})
	s.await(t, 1, "action: handled")
	s.broken.Store(true)
	s.publish(t, message, `{"`+long+`":"`+long+`"}`, amqp.Table{"tenant": long, "x-" + long[:80]: strings.Repeat("word ", 60)})
	s.publish(t, "order-b", "{}", nil)
	s.publish(t, "patient-"+long[:80], "{}", nil)
	s.await(t, 2, "action: poisoned")
	s.await(t, 1, "action: retry_scheduled")
	s.broken.Store(false)
	page := s.get(t, "/replays/new?ids=order-b&target=failed_queue")
	action, form := page.form(t, "Send 1 message")
	started := s.post(t, action, form)
	s.await(t, 2, "action: handled")
	group = path.Base(strings.Split(s.get(t, "/failures").link(t, "/failures/groups/"), "?")[0])
	s.post(t, "/searches", url.Values{"name": {long[:90]}, "address": {"/messages?q=headers.tenant%3A+" + long}})
	return path.Base(started.Request.URL.Path), group, message
}

// isCut finds tables and texts of the page that are wider than their place, and cannot be read as a whole.
const isCut = `[...document.querySelectorAll("main table, main pre, main dl, main form, main ul, main ol, main section, main .wide")].filter((e) => e.offsetParent !== null && !e.closest("[hidden], .hidden, thead, details:not([open])") && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && getComputedStyle(e).display !== "inline").map((e) => e.tagName + "." + e.className + " " + e.scrollWidth + ">" + e.clientWidth + " " + e.innerText.slice(0, 60)).join("; ")`

// Whoever is on call reads each page on a phone: nothing scrolls sideways, and no table is cut.
func TestPagesOnAPhone(t *testing.T) {
	s := newSystem(t, `WATERSHIP_ROUTES=[{queue: checked.`+strings.Repeat("by-a-long-name.", 8)+`, handler: {http: {url: "http://127.0.0.1:9/"}}}]`)
	job, group, message := s.longValues(t)
	fingerprint := s.only(t, "action: poisoned and message.id: "+message).Fingerprint
	b := newBrowser(t, s)
	b.look(t, 390, "light")
	for _, page := range []string{
		"/?wait=1", "/messages", "/messages?view=events", "/messages?since=all&fields=headers.tenant,body.json&preview=" + url.QueryEscape(fingerprint),
		"/messages?q=message.id%3A+nobody", "/messages/" + message, "/messages/" + message + "/explain", "/messages/" + message + "/copy", "/messages/" + message + "/edit",
		"/messages/" + message + "/discard", "/messages/" + message + "?body=hex", "/messages/validate?queue=orders",
		"/failures", "/failures?view=list", "/failures/by?fields=headers.tenant,queue", "/failures/groups/" + group, "/failures/discard?q=queue%3A+orders", "/failures/resolve?group=" + group,
		"/waiting", "/replays", "/replays/new?q=action%3A+poisoned&target=failed_queue", "/replays/" + job, "/routes?wait=1", "/map?wait=1", "/times", "/routes/policy?queue=orders&action=add",
		"/routes/reload", "/adoptions", "/subscriptions", "/alerts?wait=1", "/doctor?wait=1", "/searches", "/subjects", "/nothing",
	} {
		b.open(t, page)
		for _, width := range []int64{360, 390} {
			b.look(t, width, "light")
			if wide := value[int64](t, b, "document.scrollingElement.scrollWidth"); wide > width {
				t.Errorf("%s is %d pixels wide on a screen of %d: %s", page, wide, width, value[string](t, b, `[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 3).map((e) => e.outerHTML.slice(0, 120)).join("; ")`))
			}
			if cut := value[string](t, b, isCut); cut != "" {
				t.Errorf("%s, %d pixels, is cut: %s", page, width, cut)
			}
			b.picture(t, fmt.Sprintf("phone-%s-%d", pictureName(strings.NewReplacer(job, "job", group, "group", message, "message", fingerprint, "id").Replace(page)), width))
		}
	}
}
