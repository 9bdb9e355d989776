package console_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/chromedp/chromedp"
)

// reads reads the page again, as it does by itself after some seconds.
func (b browser) reads(t *testing.T) {
	t.Helper()
	b.do(t, "reading the page again", chromedp.Evaluate(`import(document.querySelector('script[src$="/console.js"]').src).then((m) => m.refresh())`, nil, awaitPromise))
}

// A page that is read again leaves alone what somebody works in, and has the number of failures in its title.
func TestLivePagesKeepWhatOneDoes(t *testing.T) {
	s := newSystem(t)
	s.fail(t, "order-1")
	b := newBrowser(t, s)
	b.open(t, "/failures?view=list")
	b.awaits(t, `document.title === "Failures · Watership"`)
	b.open(t, "/failures")
	b.awaits(t, `document.title === "(1) Failures · Watership"`)
	const boxes = `#found tbody input[type=checkbox]`
	b.do(t, "selecting a group", chromedp.Evaluate(`document.querySelector("`+boxes+`").checked = true; document.activeElement.blur()`, nil))
	s.fail(t, "order-2", "order-3")
	b.reads(t)
	b.awaits(t, `document.title === "(3) Failures · Watership"`)
	if !value[bool](t, b, `document.querySelector("`+boxes+`").checked`) {
		t.Error("a box is not checked any more")
	}
	b.do(t, "selecting a text", chromedp.Evaluate(`document.querySelector("`+boxes+`").checked = false; getSelection().selectAllChildren(document.querySelector("#found tbody")); window.selected = String(getSelection())`, nil))
	b.reads(t)
	if !value[bool](t, b, `window.selected !== "" && String(getSelection()) === window.selected`) {
		t.Error("the selected text has changed")
	}
	b.do(t, "selecting nothing", chromedp.Evaluate(`window.former = document.getElementById("found").innerHTML; getSelection().removeAllRanges()`, nil))
	b.reads(t)
	b.awaits(t, `document.getElementById("found").innerHTML !== window.former`)
}

// What is read stays in its place while rows come in above it, and what is open stays open.
func TestLivePagesKeepTheirPlace(t *testing.T) {
	s := newSystem(t)
	for n := range 45 {
		s.publish(t, fmt.Sprint("order-", n), "{}", nil)
	}
	s.await(t, 90, "message.id: *")
	b := newBrowser(t, s)
	b.look(t, 1280, "light")
	b.open(t, "/messages?since=1h")
	const row = `document.querySelector("[href='/messages/order-20']").closest("tr").getBoundingClientRect().top`
	// A part without margins becomes one whose margin is outside of it.
	b.do(t, "changing what is above", chromedp.Evaluate(`document.getElementById("counts").innerHTML = "<div>none</div>"`, nil))
	b.do(t, "scrolling", chromedp.Evaluate(`scrollBy(0, `+row+` - 200)`, nil))
	before := value[float64](t, b, row)
	for n := range 4 {
		s.publish(t, fmt.Sprint("order-", 100+n), "{}", nil)
	}
	s.await(t, 98, "message.id: *")
	b.reads(t)
	b.awaits(t, `document.querySelector("[href='/messages/order-103']") !== null`)
	if after := value[float64](t, b, row); math.Abs(after-before) > 2 {
		t.Errorf("the row that is read has moved from %v to %v", before, after)
	}
}
