package console_test

import (
	"context"
	"fmt"
	"testing"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// counting are the scripts that count what an operator does: each page that is loaded, and each click of the mouse.
const counting = `if (window === window.top && sessionStorage.counting) {
	const more = (name) => sessionStorage[name] = Number(sessionStorage[name] ?? 0) + 1;
	more("loads");
	document.addEventListener("click", (event) => { if (event.isTrusted && event.detail > 0) more("clicks"); }, true);
}`

// most is the number of clicks, and of pages, that a night on call may take.
const most = 8

// A night on call: an alert leads to the group, which says what fails, why, and in which message. Its messages are
// replayed, a canary first, and the group is muted. What fails again is edited.
func TestNightOnCall(t *testing.T) {
	s := newSystem(t)
	var ids []string
	for n := range 12 {
		ids = append(ids, fmt.Sprint("order-", n))
	}
	s.fail(t, ids...)
	group := s.get(t, "/failures").link(t, "/failures/groups/")
	b := newBrowser(t, s)
	b.do(t, "counting", chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := cdppage.AddScriptToEvaluateOnNewDocument(counting).Do(ctx)
		return err
	}))
	b.open(t, "/doctor") // on another day: the browser has told its zone
	b.awaits(t, `document.cookie.includes("watership-zone") && !document.body.hasAttribute("data-need-zone")`)
	b.do(t, "beginning", chromedp.Evaluate(`sessionStorage.counting = "yes"; 0`, nil))

	b.open(t, group) // the link of the alert
	b.sees(t, "h1", "no table for order #")
	b.sees(t, "#why", "The queue handled no messages in that time")
	b.sees(t, "#failure", "no table for order order-")
	b.sees(t, "#failure", "1 of 12")

	b.click(t, "#state a.main")
	b.sees(t, "main", "Plan: 12 messages to send") // the dry run
	b.enter(t, "input[name=canary]", "2")
	b.click(t, "form:has(input[name=canary]) button")
	b.sees(t, "#state", "2 handled 0 failed")
	b.settles(t)
	b.click(t, "#rest ~ form button.main")
	b.sees(t, "#state", "12 of 12 messages sent")
	b.sees(t, "#state", "12 handled 0 failed")
	s.failAgain(t, 13)

	b.click(t, `a[href^="/failures/groups/"]`)
	b.sees(t, "#state", "regressed")
	b.sees(t, "#history", "replayed 12 messages")
	b.sees(t, "#history", "12 handled")
	b.click(t, "summary:has(+ form button[value=muted])")
	b.enter(t, "form:has(button[value=muted]) input[name=hours]", "2")
	b.enter(t, "form:has(button[value=muted]) input[name=reason]", "the table is being laid")
	b.do(t, "muting", chromedp.KeyEvent(kb.Enter))
	b.sees(t, ".done", "Muted.")

	b.click(t, `#failure a[href$="/edit"]`)
	b.sees(t, "h1", "Edit message order-99")
	b.do(t, "editing", chromedp.Evaluate(`(() => { const text = document.getElementById("edit-message"); text.value = text.value.replace('"body": {}', '"body": {"table": 7}'); return 0; })()`, nil))
	b.click(t, "button[value=review]")
	b.sees(t, "#review", ".body.table nothing 7")
	b.click(t, "button[value=send]")
	b.sees(t, "#state", "1 handled 0 failed")

	clicks, loads := value[string](t, b, "sessionStorage.clicks"), value[string](t, b, "sessionStorage.loads")
	t.Logf("%s clicks, %s pages", clicks, loads)
	if clicks > fmt.Sprint(most) || loads > fmt.Sprint(most) || len(clicks) > 1 || len(loads) > 1 {
		t.Errorf("%s clicks and %s pages, want at most %d", clicks, loads, most)
	}
	if n := s.count(t, "action: handled"); n != 13 {
		t.Errorf("%d messages were handled, want 13", n)
	}
}
