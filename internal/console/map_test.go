package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// The map shows the ways of messages, and each of them opens its messages. An empty record says what to do.
func TestMapPage(t *testing.T) {
	eachStore(t, func(t *testing.T, s served) {
		s.get(t, whole("/map")).want(t, http.StatusOK, "No messages match", "Show all time")
		s.get(t, whole("/map?since=all")).want(t, http.StatusOK, "Nothing was recorded yet", "tap.exchanges")
		s.fill(t)
		page := s.get(t, whole("/map"))
		page.want(
			t, http.StatusOK, "unknown publisher to shop: ", "shop to orders: 8 messages, ", "4 given up", "orders to unknown service: 4 messages, ",
			"4 failed attempts", "3 ways of messages",
		)
		s.get(t, page.link(t, "/messages?q=%28action%3A")).want(t, http.StatusOK, "order-0", "order-6")
		s.get(t, whole("/map?q=message.id:+order-1")).want(t, http.StatusOK, "shop to orders: 1 message, ")
		s.get(t, whole("/map?q=queue:+mails")).want(t, http.StatusOK, "No messages match")
		refused := s.get(t, whole("/map?q=queue:+("))
		refused.want(t, http.StatusBadRequest)
		if n := strings.Count(refused.text, `class="problem"`); n != 1 {
			t.Errorf("a query that cannot be read has %d errors", n)
		}
		s.get(t, "/routes").want(t, http.StatusOK, "Map of services")
	})
}

// With the keyboard, each way of the picture is a link with a name, and opens its messages.
func TestMapWithTheKeyboard(t *testing.T) {
	s := newSystem(t)
	s.fill(t)
	b := newBrowser(t, s)
	for width, picture := range map[int64]string{390: "small", 1280: "large"} {
		for _, scheme := range []string{"light", "dark"} {
			b.look(t, width, scheme)
			b.open(t, "/map?wait=1")
			for _, barrier := range b.barriers(t) {
				t.Errorf("%s, %d pixels: %s", scheme, width, barrier)
			}
			if cut := value[string](t, b, isCut); width == 390 && cut != "" {
				t.Errorf("%s, on a phone, is cut: %s", scheme, cut)
			}
			b.picture(t, fmt.Sprintf("map-%s-%d", scheme, width))
		}
		if seen := value[string](t, b, `[...document.querySelectorAll("svg.map")].filter((e) => e.getClientRects().length > 0).map((e) => e.classList[1]).join()`); seen != picture {
			t.Errorf("on %d pixels, the pictures %q are shown", width, seen)
		}
		b.do(t, "going to the first way", chromedp.Focus("#query"))
		for range 30 {
			b.do(t, "pressing Tab", chromedp.KeyEvent(kb.Tab))
			if value[bool](t, b, `document.activeElement.closest("svg.map") !== null`) {
				break
			}
		}
		name := value[string](t, b, `document.activeElement.getAttribute("aria-label") ?? ""`)
		if !strings.Contains(name, " to ") {
			t.Errorf("the first way is called %q", name)
		}
		b.do(t, "pressing Enter", chromedp.KeyEvent(kb.Enter))
		b.awaits(t, `location.pathname === "/messages" && document.querySelector("#query").value.includes("action")`)
	}
}
