package console_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// The list has a row for each message, with its state, and further columns from its headers and body.
func TestMessagesAreListed(t *testing.T) {
	eachStore(t, wantListed)
}

func wantListed(t *testing.T, s served) {
	t.Helper()
	s.get(t, "/messages").want(t, http.StatusOK, "No message matches")
	shop(t, s)
	page := s.get(t, "/messages?q=destination.name%3A+shop&fields=headers.tenant,body.json.id") // not the audited accesses to bodies
	page.want(t, http.StatusOK, "State Message Published to headers.tenant body.json.id Attempts Latest event Error")
	list := rows(t, page)
	age := regexp.MustCompile(`\|(now|[^|]* ago)\|`)
	for i := range list {
		list[i] = age.ReplaceAllString(list[i], "|…|")
	}
	slices.Sort(list)
	want := []string{
		"failed|order-3|shop order.placed|acme|3|1|…|no table for order order-3",
		"handled|order-1|shop order.placed|acme|1|1|…|", "handled|order-2|shop order.placed|umbrella|2|1|…|",
	}
	if !slices.Equal(list, want) {
		t.Errorf("got %q, want %q", list, want)
	}
	if got := link(t, page, "order-3"); got != "/messages/order-3" {
		t.Errorf("the message is at %s", got)
	}

	// A row opens in place, and the address keeps it with the columns.
	page = s.get(t, link(t, page, "failed"))
	page.want(t, http.StatusOK, "poisoned orders attempt 1", `"id": 3`, "Open the message")
	if got := page.Request.URL.Query(); got.Get("fields") != "headers.tenant,body.json.id" || got.Get("preview") == "" {
		t.Errorf("the preview is at %s", page.Request.URL)
	}
	s.get(t, link(t, page, "failed")).without(t, "Open the message")

	// The same query lists events, and back.
	page = s.get(t, link(t, page, "Events"))
	if got := len(rows(t, page)); got != 6 {
		t.Errorf("%d events", got)
	}
	back := regexp.MustCompile(`class="views">\s*<li><a href="([^"]*)"`).FindStringSubmatch(page.text)
	if page = s.get(t, html.UnescapeString(back[1])); len(rows(t, page)) != 3 || page.Request.URL.Query().Get("fields") != "headers.tenant,body.json.id" {
		t.Errorf("back at %s", page.Request.URL)
	}
}

// The pages of a list have every message once.
func TestListedMessagesInPages(t *testing.T) {
	s := newSystem(t)
	const messages = 60
	for n := range messages {
		s.publish(t, fmt.Sprint("order-", n), "{}", nil)
	}
	s.await(t, 2*messages, "message.id: *")
	first := s.get(t, "/messages")
	second := s.get(t, link(t, first, "Older"))
	if _, more := rows(t, first), strings.Contains(second.text, ">Older<"); more {
		t.Error("a third page follows")
	}
	seen := map[string]bool{}
	for _, row := range append(rows(t, first), rows(t, second)...) {
		seen[strings.Split(row, "|")[1]] = true
	}
	if n := len(rows(t, first)) + len(rows(t, second)); n != messages || len(seen) != messages {
		t.Errorf("%d rows of %d messages, want %d", n, len(seen), messages)
	}
}

// Without a period, the page has one that fits the data.
func TestPeriodFitsTheData(t *testing.T) {
	for _, test := range []struct {
		ages []time.Duration
		want string
	}{
		{[]time.Duration{time.Minute}, "Last 15 minutes"},
		{[]time.Duration{2 * time.Hour}, "Last 6 hours"},
		{[]time.Duration{2 * time.Hour, 40 * 24 * time.Hour}, "Last 24 hours"},
		{[]time.Duration{3 * 24 * time.Hour}, "Last 7 days"},
		{[]time.Duration{60 * 24 * time.Hour}, "All time"},
		{nil, "Last 24 hours"},
	} {
		s := newSystem(t)
		for i, age := range test.ages {
			e := published(fmt.Sprint("order-", i), "{}", nil)
			e.Time = time.Now().Add(-age)
			s.keep(t, e)
		}
		page := s.shown(t, test.want)
		if len(test.ages) > 0 {
			page.want(t, http.StatusOK, "order-0")
		}
	}
}

// shown returns the list of messages, once it has a period: a busy store gives none in time.
func (s served) shown(t *testing.T, period string) document {
	t.Helper()
	var page document
	if !rabbittest.Poll(rabbittest.Timeout, func() bool {
		page = s.get(t, "/messages")
		return strings.Contains(page.text, "<summary>"+period+"</summary>")
	}) {
		t.Fatalf("the messages are not shown with the period %s:\n%s", period, page.words(t))
	}
	return page
}

// A preview is shown although its message is no longer among the newest.
func TestPreviewOfAMessageThatIsNotInTheList(t *testing.T) {
	s := newSystem(t)
	s.keep(t, published("order-1", "{}", nil), published("order-2", "{}", nil))
	preview := s.only(t, "message.id: order-1").Fingerprint
	page := s.get(t, "/messages?since=all&q=message.id%3A+order-2&preview="+url.QueryEscape(preview))
	page.want(t, http.StatusOK, "order-2", "Open the message")
	page.link(t, "/messages/"+url.PathEscape(preview))
}

// A period that fits the data is not one that somebody has chosen: it is not saved with a search.
func TestFittingPeriodIsNotSaved(t *testing.T) {
	s := newSystem(t)
	e := published("order-1", "{}", nil)
	e.Time = time.Now()
	s.keep(t, e)
	page := s.shown(t, "Last 15 minutes")
	page.want(t, http.StatusOK, "order-1")
	_, address, _ := strings.Cut(page.text, `name="address" value="`)
	if address, _, _ = strings.Cut(address, `"`); !strings.HasPrefix(address, "/messages") || strings.Contains(address, "since") {
		t.Errorf("saved is %q", address)
	}
}

// A preview opens and closes without a load of the page, by click and by keys, and is in the address.
func TestPreviewInTheBrowser(t *testing.T) {
	s := newSystem(t)
	shop(t, s)
	b := newBrowser(t, s)
	b.open(t, "/messages?since=15m")
	b.do(t, "marking the page", chromedp.Evaluate("window.isSame = true", nil))
	b.click(t, ".listed td.exchange")
	b.sees(t, "#preview", "Open the message")
	b.awaits(t, `new URLSearchParams(location.search).get("preview") !== null`)
	b.press(t, "j", "j", kb.Enter) // the second row
	b.awaits(t, `[...document.querySelectorAll(".listed tr")].findIndex((row) => row.id === "preview") === 3`)
	b.press(t, "j", kb.Enter)
	b.awaits(t, `[...document.querySelectorAll(".listed tr")].findIndex((row) => row.id === "preview") === 4`)
	b.press(t, kb.Enter)
	b.awaits(t, `document.getElementById("preview") === null && new URLSearchParams(location.search).get("preview") === null`)
	if !value[bool](t, b, "window.isSame === true") {
		t.Error("the page was loaded again")
	}
}

// A live list shows new messages and states, but not while somebody reads in it.
func TestLiveMessages(t *testing.T) {
	s := newSystem(t)
	shop(t, s)
	b := newBrowser(t, s)
	b.open(t, "/messages?live=1&since=15m&q="+url.QueryEscape("headers.tenant: acme"))
	b.sees(t, "[data-tail-state]", "Live")
	s.publish(t, "order-5", "{}", amqp.Table{"tenant": "acme"})
	b.sees(t, "#list", "order-5")
	b.click(t, ".listed tbody tr:last-child td.exchange")
	b.sees(t, "#preview", "Open the message")
	s.publish(t, "order-6", "{}", amqp.Table{"tenant": "acme"})
	b.sees(t, "[data-tail-more]", "new event")
	if value[bool](t, b, `document.getElementById("preview") === null || document.getElementById("list").innerText.includes("order-6")`) {
		t.Error("the list has changed below a preview")
	}
	b.click(t, "[data-tail-more]")
	b.sees(t, "#list", "order-6")
}
