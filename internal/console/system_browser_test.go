package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/watershipmq/watership/internal/console"
	"github.com/watershipmq/watership/internal/operation/access"
)

// The script reads parts that were late, also those that take longer than its first try.
func TestLatePartsArrive(t *testing.T) {
	s := newSystem(t)
	pages, err := console.New(console.Config{API: slowly{s.api, 2 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages.ServeHTTP(w, r.WithContext(access.NewContext(r.Context(), access.Identity{Name: "ada", Role: access.Admin})))
	}))
	t.Cleanup(server.Close)
	b := newBrowser(t, served{url: server.URL})
	b.open(t, "/")
	b.sees(t, "#events", "Counting…")
	b.sees(t, "#events", "No messages in this period")
	b.sees(t, "#failures", "No open failures")
}

// The keys of a list open what its row is about, and not its checkbox.
func TestKeysOpenARow(t *testing.T) {
	s := newSystem(t)
	s.broken.Store(true)
	s.publish(t, "order-1", `{}`, nil)
	s.await(t, 1, "action: poisoned")
	b := newBrowser(t, s)
	for path, opened := range map[string]string{"/failures": "/failures/groups/", "/failures?view=list": "/messages/"} {
		b.open(t, path)
		b.do(t, "pressing j and Enter", chromedp.KeyEvent("j"), chromedp.KeyEvent(kb.Enter))
		b.awaits(t, fmt.Sprintf("location.pathname.startsWith(%q)", opened))
	}
}

// The list of keys has those of the page, and each event of a message has a link.
func TestKeysAndLinksOfAMessage(t *testing.T) {
	s := newSystem(t)
	s.broken.Store(true)
	s.publish(t, "order-1", `{}`, nil)
	s.await(t, 1, "action: poisoned")
	b := newBrowser(t, s)
	b.open(t, "/messages/order-1")
	for range 2 {
		b.do(t, "pressing ?", chromedp.KeyEvent("?"))
		b.sees(t, "#keys[open]", "Edit and replay")
		b.click(t, "#keys button")
		b.awaits(t, `!document.querySelector("dialog[open]")`)
	}
	if n := value[int64](t, b, `[...document.querySelectorAll("#keys kbd")].filter((key) => key.textContent === "e").length`); n != 1 {
		t.Errorf("the key e is listed %d times", n)
	}
	b.click(t, `#timeline li:last-of-type a[href^="#event-"]`)
	b.awaits(t, `document.querySelector("#timeline li:target") !== null`)
}

// An operator pauses a route and resumes it with the keyboard and the pointer; pages with
// something on them have no barriers.
func TestRoutesInTheBrowser(t *testing.T) {
	s := newSystem(t, "WATERSHIP_ALERTS_RECEIVERS=[{name: hook, webhook: {url: 'http://127.0.0.1:9'}}]", "WATERSHIP_ALERTS_RULES=[{name: fresh, on: new_group, severity: critical}]")
	s.publish(t, "m-1", `{}`, nil)
	s.await(t, 1, "action: handled")
	s.broken.Store(true)
	s.publish(t, "m-2", `{}`, nil)
	s.await(t, 1, "action: poisoned")
	b := newBrowser(t, s)
	b.look(t, 1600, "light")
	b.open(t, "/routes")
	b.sees(t, "#own", "Watership's own queues")
	b.click(t, "details.act summary")
	b.enter(t, "input[name=reason]", "the database moves")
	b.click(t, "details.act button")
	b.sees(t, "p.done", "The route of orders is paused.")
	b.sees(t, "#states", "by an operator")
	for _, path := range []string{"/?wait=1", "/routes?wait=1", "/doctor?wait=1", "/alerts?wait=1"} {
		for scheme, widths := range screens(path) {
			for _, width := range widths {
				b.look(t, width, scheme)
				b.open(t, path)
				if wide := value[int64](t, b, "document.documentElement.scrollWidth"); wide > width {
					t.Errorf("%s is %d pixels wide on a screen of %d", path, wide, width)
				}
				for _, barrier := range b.barriers(t) {
					t.Errorf("%s, %s, %d pixels: %s", path, scheme, width, barrier)
				}
				b.picture(t, fmt.Sprintf("system-%s-%s-%d", pictureName(path), scheme, width))
			}
		}
	}
	b.look(t, 1600, "light")
	b.open(t, "/routes")
	b.click(t, `form[action="/routes/resume"] button`)
	b.sees(t, "p.done", "The route of orders is resumed.")
	b.open(t, "/")
	b.click(t, "#events summary")
	b.sees(t, "#events table", "Poisoned")
	if links := value[int](t, b, `document.querySelectorAll("#events table a[href^='/messages?']").length`); links < 2 {
		t.Errorf("%d links to the messages of a step", links)
	}
}
