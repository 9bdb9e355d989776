package console_test

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// Without the zone of the browser, times are in UTC and say so; the script shows them in its zone.
func TestTimesWithoutTheZoneOfTheBrowser(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.fail(t, "order-1")
	path := "/messages?view=events&q=action%3A+poisoned&since=all"
	shown := s.get(t, path)
	shown.want(t, http.StatusOK, "order-1")
	times := regexp.MustCompile(`<time [^>]*data-utc[^>]*>([^<]*)</time>`).FindAllStringSubmatch(shown.text, -1)
	for _, found := range times {
		if !strings.HasSuffix(found[1], " UTC") {
			t.Errorf("%s does not say that it is in UTC", found[1])
		}
	}
	if len(times) < 3 {
		t.Errorf("the page has %d times", len(times))
	}
	b := newBrowser(t, s)
	b.do(t, "refusing cookies", chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(`Object.defineProperty(document, "cookie", {get: () => "", set() {}})`).Do(ctx)
		return err
	}))
	b.open(t, path)
	b.awaits(t, `document.querySelector("td time") !== null && [...document.querySelectorAll("td time")].every((time) => {
		const at = new Date(time.dateTime), two = (n) => String(n).padStart(2, "0");
		return time.textContent.includes(`+"` ${two(at.getHours())}:${two(at.getMinutes())}:`"+`) && !time.textContent.includes("UTC");
	})`)
	b.sees(t, "footer", "Times in Europe/Berlin; those that you enter are in UTC")
}
