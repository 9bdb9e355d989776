package console_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	amqp "github.com/rabbitmq/amqp091-go"
)

// press sends keys to the element that has the focus, as a keyboard does: what a key types
// is up to the page.
func (b browser) press(t *testing.T, keys ...string) {
	t.Helper()
	for _, key := range keys {
		b.do(t, "pressing a key", keyOf(key, 0))
	}
}

// keyOf presses a key of package kb, or types a text.
func keyOf(key string, modifiers input.Modifier) chromedp.Action {
	names := map[string]string{kb.Enter: "Enter", kb.Tab: "Tab", kb.Escape: "Escape", kb.ArrowUp: "ArrowUp", kb.ArrowDown: "ArrowDown", kb.ArrowLeft: "ArrowLeft", kb.ArrowRight: "ArrowRight"}
	name, found := names[key]
	if !found {
		return chromedp.KeyEvent(key)
	}
	down := input.DispatchKeyEvent(input.KeyDown).WithKey(name).WithCode(name).WithModifiers(modifiers).WithWindowsVirtualKeyCode(kb.Keys[[]rune(key)[0]].Windows)
	if key == kb.Enter {
		down = down.WithText("\r")
	}
	return chromedp.Tasks{down, input.DispatchKeyEvent(input.KeyUp).WithKey(name).WithCode(name)}
}

// types replaces the query.
func (b browser) types(t *testing.T, query string) {
	t.Helper()
	b.do(t, "emptying the query", chromedp.Evaluate(`document.getElementById("query").value = ""; document.getElementById("query").focus()`, nil))
	b.press(t, query)
}

// options waits until the completions are these, and more if the last one is "…".
func (b browser) options(t *testing.T, want string) {
	t.Helper()
	const listed = `[...document.querySelectorAll("#completions li span")].map((e) => e.textContent).join(" ")`
	if start, more := strings.CutSuffix(want, "…"); more {
		b.awaits(t, fmt.Sprintf("(%s).startsWith(%q)", listed, start))
		return
	}
	b.awaits(t, fmt.Sprintf("%s === %q", listed, want))
}

// isAt waits until the page has a query.
func (b browser) isAt(t *testing.T, query string) {
	t.Helper()
	b.awaits(t, fmt.Sprintf(`document.readyState === "complete" && new URLSearchParams(location.search).get("q") === %q`, query))
}

// query waits until the query box has a text.
func (b browser) query(t *testing.T, want string) {
	t.Helper()
	if got := value[string](t, b, `document.getElementById("query").value`); got != want {
		t.Fatalf("the query is %q, want %q", got, want)
	}
}

// Fields, operators, values and links of conditions are completed with the keyboard alone.
func TestQueryIsCompleted(t *testing.T) {
	s := newSystem(t)
	shop(t, s)
	s.publish(t, "order 4", "{}", amqp.Table{"tenant": `the "best"`, "shard": int32(7)})
	s.await(t, 2, `message.id: "order 4"`)
	b := newBrowser(t, s)
	b.open(t, "/messages")
	b.click(t, "#query")
	b.press(t, "act")
	b.options(t, "action …")
	b.press(t, kb.ArrowDown, kb.Enter)
	b.query(t, "action: ")
	b.options(t, "published handled poisoned")
	b.press(t, "poi")
	b.options(t, "poisoned")
	b.press(t, kb.ArrowDown, kb.Tab)
	b.query(t, "action: poisoned ")
	b.options(t, "and or")
	b.press(t, kb.ArrowUp, kb.ArrowUp, kb.Enter)
	b.query(t, "action: poisoned and ")
	b.options(t, "action queue message.id …")
	b.press(t, "queue: ")
	b.options(t, "orders")
	b.press(t, kb.Escape) // closes the list, not the field
	b.press(t, "orders", kb.Enter)
	b.isAt(t, "action: poisoned and queue: orders")
	b.sees(t, "#list", "order-3")

	b.types(t, "headers.")
	b.options(t, "headers.shard headers.tenant")
	b.press(t, kb.ArrowDown, kb.ArrowDown, kb.Enter)
	b.options(t, `acme the "best" umbrella`)
	b.press(t, kb.ArrowDown, kb.ArrowDown, kb.Enter)
	b.query(t, `headers.tenant: "the \"best\"" `)
	b.press(t, kb.Enter)
	b.isAt(t, `headers.tenant: "the \"best\"" `)
	b.sees(t, "#list", "order 4")
	b.types(t, "attempt ")
	b.options(t, ": >= <= > <")
	b.press(t, kb.ArrowDown, kb.ArrowDown, kb.Enter)
	b.query(t, "attempt >= ")
	b.types(t, "action: (poisoned or hand")
	b.options(t, "handled")
	if barriers := b.barriers(t); len(barriers) > 0 {
		t.Errorf("with completions: %q", barriers)
	}
}

// Former queries come back with the arrow keys in the empty box, and by a button.
func TestQueriesAreRemembered(t *testing.T) {
	s := newSystem(t)
	shop(t, s)
	b := newBrowser(t, s)
	b.open(t, "/messages?since=all")
	for _, query := range []string{"action: handled", "action: poisoned"} {
		b.types(t, query)
		b.press(t, kb.Enter)
		b.isAt(t, query)
	}
	b.open(t, "/messages")
	b.click(t, "#query")
	b.press(t, kb.ArrowDown)
	b.options(t, "action: poisoned action: handled")
	b.press(t, kb.ArrowDown, kb.ArrowDown, kb.Enter)
	b.query(t, "action: handled")
	b.click(t, ".query button.quiet")
	b.options(t, "action: poisoned action: handled")
}

// drag draws the pointer over parts of the width of the chart.
func (b browser) drag(t *testing.T, from, to float64) {
	t.Helper()
	box := value[[]float64](t, b, `(() => { const r = document.querySelector("[data-histogram] svg").getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()`)
	y := box[1] + box[3]/2
	at := func(part float64) float64 { return box[0] + part*box[2] }
	b.do(t, "drawing over the chart",
		input.DispatchMouseEvent(input.MousePressed, at(from), y).WithButton(input.Left).WithClickCount(1),
		input.DispatchMouseEvent(input.MouseMoved, (at(from)+at(to))/2, y).WithButton(input.Left).WithButtons(1),
		input.DispatchMouseEvent(input.MouseMoved, at(to), y).WithButton(input.Left).WithButtons(1),
		input.DispatchMouseEvent(input.MouseReleased, at(to), y).WithButton(input.Left).WithClickCount(1),
	)
}

// The pointer, or keys, choose a part of the chart.
func TestHistogramIsZoomed(t *testing.T) {
	s := newSystem(t)
	shop(t, s)
	b := newBrowser(t, s)
	const hour = "/messages?view=events&wait=1&from=now-1h&q=action%3A+*&fields=message.id"
	const period = `(() => { const p = new URLSearchParams(location.search); return (Date.parse(p.get("to")) - Date.parse(p.get("from"))) / 60000; })()`
	zoomed := func(minutes float64) {
		t.Helper()
		b.awaits(t, `document.readyState === "complete" && new URLSearchParams(location.search).get("to") !== null`)
		if got := value[float64](t, b, period); got != minutes {
			t.Errorf("zoomed to %v minutes, want %v", got, minutes)
		}
		if got := value[string](t, b, "new URLSearchParams(location.search).get('q') + new URLSearchParams(location.search).get('fields')"); got != "action: *message.id" {
			t.Errorf("the rest became %s", got)
		}
	}
	b.open(t, hour)
	bars := value[float64](t, b, `Number(document.querySelector("[data-bars]").dataset.bars)`) // of a minute
	b.drag(t, 0.5/bars, 9.5/bars)
	zoomed(10)
	b.open(t, hour)
	b.drag(t, 29.5/bars, 20.5/bars) // to the left
	zoomed(10)

	b.open(t, hour)
	b.do(t, "focusing the chart", chromedp.Focus("[data-histogram] svg", chromedp.ByQuery))
	b.press(t, kb.ArrowLeft) // the last bar
	b.do(t, "selecting with shift", keyOf(kb.ArrowLeft, input.ModifierShift), keyOf(kb.ArrowLeft, input.ModifierShift))
	b.sees(t, "#announce", "to")
	b.press(t, kb.Enter)
	zoomed(3)
	b.sees(t, "#list", "order-3")

	b.open(t, hour)
	b.click(t, "[data-bar]") // a link
	zoomed(1)
}

// New events come by themselves, wait while they are held back, and are those of the query.
func TestLiveTail(t *testing.T) {
	s := newSystem(t)
	shop(t, s)
	b := newBrowser(t, s)
	b.open(t, "/messages?view=events&live=1&fields=message.id,headers.tenant,action&q="+url.QueryEscape("headers.tenant: acme and action: published"))
	b.sees(t, "[data-tail-state]", "Live")
	s.publish(t, "order-5", "{}", amqp.Table{"tenant": "umbrella"})
	s.publish(t, "<b>order-6", "{}", amqp.Table{"tenant": "acme"})
	b.sees(t, "#list tbody tr:first-child", "<b>order-6 acme published")
	b.click(t, "[data-tail-pause]")
	s.publish(t, "order-7", "{}", amqp.Table{"tenant": "acme"})
	b.sees(t, "[data-tail-more]", "1 new event")
	if rows := value[int](t, b, `document.querySelectorAll("#list tbody tr").length`); rows != 3 {
		t.Errorf("%d rows while the tail is paused, want 3", rows)
	}
	b.click(t, "[data-tail-more]")
	b.sees(t, "#list tbody tr:first-child", "order-7 acme published")
	if got := value[string](t, b, `[...document.querySelectorAll("#list tbody a")].map((a) => a.getAttribute("href")).join(" ")`); got != "/messages/order-7 /messages/%3Cb%3Eorder-6 /messages/order-3 /messages/order-1" {
		t.Errorf("links to %s", got)
	}
	if barriers := b.barriers(t); len(barriers) > 0 {
		t.Errorf("with the tail: %q", barriers)
	}
	b.click(t, `.tools .button[aria-current]`)
	b.sees(t, ".tools", "Live tail")
}

// A tail of every kind of column shows what the server does.
func TestLiveRowsAreThoseOfTheServer(t *testing.T) {
	s := newSystem(t)
	b := newBrowser(t, s)
	const path = "/messages?view=events&live=1&fields=%40timestamp,action,destination.name,routing_key,queue,attempt,message.id,error.message,headers.a.b,headers,duration,first_failed"
	b.open(t, path)
	b.sees(t, "[data-tail-state]", "Live")
	s.broken.Store(true)
	s.publish(t, "a/b \u202e", "{}", amqp.Table{"a.b": "dots", "n": int64(1) << 53, "t": amqp.Table{"x": "y"}})
	for _, id := range noPages {
		s.publish(t, id, "{}", nil)
	}
	events := 2 * (1 + len(noPages))
	s.await(t, int64(events), "destination.name: shop")
	const shown = `[...document.querySelectorAll("#list tbody tr")].map((r) => r.outerHTML.replace(/ (class|data-row|title|datetime)="[^"]*"/g, "").replace(/\s+</g, "<").replace(/href="([^"]*)"/g, (_, to) => decodeURIComponent(to))).sort().join("\n")`
	b.awaits(t, fmt.Sprintf(`document.querySelectorAll("#list tbody tr").length === %d`, events))
	live := value[string](t, b, shown)
	b.open(t, path)
	if served := value[string](t, b, shown); live != served {
		t.Errorf("live\n%s\nserved\n%s", live, served)
	}
}

// The page works without script, and each of its states has no barrier.
func TestMessagesInEachState(t *testing.T) {
	s := newSystem(t)
	b := newBrowser(t, s)
	shop(t, s)
	s.publish(t, strings.Repeat("long-", 50), "{}", amqp.Table{"tenant": strings.Repeat("word ", 100)})
	s.await(t, 1, "message.id: long-* and action: poisoned")
	for name, path := range map[string]string{
		"messages":         "/messages?since=15m",
		"messages-mistake": "/messages?q=acton%3A+poisoned",
		"messages-events":  "/messages?view=events&since=15m",
		"messages-preview": "/messages?since=15m&preview=" + url.QueryEscape(s.only(t, "action: poisoned and message.id: order-3").Fingerprint),
		"messages-empty":   "/messages?q=message.id%3A+nobody",
		"messages-columns": "/messages?view=events&fields=message.id,headers.tenant,headers,fingerprint,duration&live=1",
	} {
		for scheme, widths := range screens(name) {
			for _, width := range widths {
				b.look(t, width, scheme)
				b.open(t, path)
				b.do(t, "opening the menus", chromedp.Evaluate(`document.querySelectorAll("[data-menu]").forEach((m) => (m.open = true))`, nil))
				if wide := value[int64](t, b, "document.documentElement.scrollWidth"); wide > width {
					t.Errorf("%s is %d pixels wide on a screen of %d", name, wide, width)
				}
				for _, barrier := range b.barriers(t) {
					t.Errorf("%s, %s, %d pixels: %s", name, scheme, width, barrier)
				}
				b.do(t, "closing the menus", chromedp.Evaluate(`document.querySelectorAll("[data-menu]").forEach((m) => (m.open = false))`, nil))
				b.picture(t, fmt.Sprintf("%s-%s-%d", name, scheme, width))
			}
		}
	}
}

// Without script, the tail refreshes the page.
func TestLiveTailWithoutScript(t *testing.T) {
	s := newSystem(t)
	if got := s.get(t, "/messages?view=events&live=1"); !strings.Contains(got.text, `<noscript><meta http-equiv="refresh" content="10"></noscript>`) {
		t.Error("the page does not refresh itself")
	}
	if got := s.get(t, "/messages"); strings.Contains(got.text, "http-equiv") {
		t.Error("a page without the tail refreshes itself")
	}
}
