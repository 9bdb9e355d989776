package console_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/net/html"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/console"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system"
)

// shop publishes orders of two tenants, of which the third fails for good.
func shop(t *testing.T, s served) {
	t.Helper()
	s.publish(t, "order-1", `{"id":1}`, amqp.Table{"tenant": "acme"})
	s.publish(t, "order-2", `{"id":2}`, amqp.Table{"tenant": "umbrella"})
	s.await(t, 2, "action: handled")
	s.broken.Store(true)
	s.publish(t, "order-3", `{"id":3}`, amqp.Table{"tenant": "acme"})
	s.await(t, 1, "action: poisoned")
	s.await(t, 3, "action: published and message.id: order-*")
}

// rows are the cells of the list, those of a row separated by |.
func rows(t *testing.T, d document) (list []string) {
	t.Helper()
	tree, err := html.Parse(strings.NewReader(d.text))
	if err != nil {
		t.Fatal(err)
	}
	var text func(n *html.Node) string
	text = func(n *html.Node) string {
		if n.Type == html.TextNode {
			return n.Data
		}
		var all strings.Builder
		for child := range n.ChildNodes() {
			all.WriteString(text(child))
		}
		return strings.TrimSpace(all.String())
	}
	for n := range tree.Descendants() {
		if n.Data != "tr" || !slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "data-row" }) {
			continue
		}
		var cells []string
		for child := range n.ChildNodes() {
			if child.Data == "td" {
				cells = append(cells, text(child))
			}
		}
		list = append(list, strings.Join(cells, "|"))
	}
	return list
}

// link returns the URL of the first link whose text or label matches a pattern.
func link(t *testing.T, d document, pattern string) string {
	t.Helper()
	found := regexp.MustCompile(`<a [^>]*?href="([^"]*)"[^>]*?(?:aria-label="` + pattern + `|>(?:<[^>]*>)*` + pattern + `)`).FindStringSubmatch(d.text)
	if found == nil {
		t.Fatalf("%s has no link %s:\n%s", d.Request.URL, pattern, d.text)
	}
	return html.UnescapeString(found[1])
}

func TestMessagesListEvents(t *testing.T) {
	s := newSystem(t, "WATERSHIP_INDEX_LABELS=tenant")
	s.get(t, "/messages?view=events&since=all").want(t, http.StatusOK, "No event matches", "Nothing is recorded yet")
	shop(t, s)
	page := s.get(t, "/messages?view=events&wait=1")
	page.want(t, http.StatusOK, "published 3", "handled 2", "poisoned 1", "6 events", "Replay these")
	for deadline := time.Now().Add(rabbittest.Timeout); !strings.Contains(page.words(t), "Queues: orders 3"); page = s.get(t, "/messages?view=events&wait=1") {
		if time.Now().After(deadline) { // they are left out while the machine is slow
			t.Fatalf("no counts by queue:\n%s", page.words(t))
		}
	}
	list := rows(t, page)
	poisoned := regexp.MustCompile(`^2\d{3}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC\|poisoned\|shop\|order\.placed\|orders\|1\|order-3\|no table for order order-3$`)
	if len(list) != 6 || !slices.ContainsFunc(list, poisoned.MatchString) || !slices.IsSortedFunc(list, func(a, b string) int { return strings.Compare(b[:23], a[:23]) }) {
		t.Errorf("got %q", list)
	}
	if got := link(t, page, "order-3"); got != "/messages/order-3" {
		t.Errorf("the message is at %s", got)
	}

	// Links narrow the query and keep the rest.
	page = s.get(t, "/messages?view=events&wait=1&q=queue%3A+orders+or+queue%3A+mails&fields=message.id,tenant&fields=headers.tenant")
	page.want(t, http.StatusOK, "Message tenant headers.tenant order-3 acme acme")
	page = s.get(t, link(t, page, "poisoned"))
	if got := page.Request.URL.Query(); got.Get("q") != "(queue: orders or queue: mails) and action: poisoned" || got.Get("fields") == "" {
		t.Errorf("narrowed to %s", page.Request.URL)
	}
	if got := strings.Join(rows(t, page), ";"); got != "order-3|acme|acme" {
		t.Errorf("got %q", got)
	}
	s.get(t, "/messages?view=events&q=message.id%3A+nobody").want(t, http.StatusOK, "No event matches", "all time", "without the query")
}

func TestMessagesColumns(t *testing.T) {
	s := newSystem(t)
	shop(t, s)
	at := func(query string) string { return "/messages?view=events&q=action%3A+poisoned&" + query }
	page := s.get(t, at("add=headers.tenant&fields=message.id")) // as a form without script sends it
	if got, want := page.Request.URL.Query().Get("fields"), "message.id,headers.tenant"; got != want {
		t.Errorf("columns %s, want %s", got, want)
	}
	page = s.get(t, link(t, page, "Move headers.tenant to the left"))
	if got := rows(t, page); len(got) != 1 || got[0] != "acme|order-3" {
		t.Errorf("got %q", got)
	}
	page = s.get(t, link(t, page, "Remove Message"))
	if got := rows(t, page); len(got) != 1 || got[0] != "acme" || link(t, page, "acme") != "/messages/order-3" {
		t.Errorf("got %q", got)
	}
	if got := rows(t, s.get(t, at("fields=body.json.id,watership.attempt"))); len(got) != 1 || got[0] != "3|1" {
		t.Errorf("of the body: got %q", got)
	}
	for fields, want := range map[string]string{"tenamt": `no field "tenamt"`, "id": "event.id", "labels.*": "not one field", "watership": "not one field"} {
		s.get(t, at("fields="+fields)).want(t, http.StatusBadRequest, want)
	}
	s.get(t, at("add=attemt")).want(t, http.StatusBadRequest, "Did you mean")
}

func TestMessagesMarkMistakes(t *testing.T) {
	s := newSystem(t)
	page := s.get(t, "/messages?view=events&q="+url.QueryEscape(`queue: orders and acton: "<b>"`))
	page.want(t, http.StatusBadRequest, `no field "acton"`, "Did you mean event.action?")
	for _, want := range []string{
		`queue: orders and <mark>acton</mark>: &#34;&lt;b&gt;&#34;`, `value="queue: orders and acton: &#34;&lt;b&gt;&#34;"`, `aria-invalid="true" aria-describedby="problem"`,
	} {
		if !strings.Contains(page.text, want) {
			t.Errorf("no %s in\n%s", want, page.text)
		}
	}
	s.get(t, "/messages?view=events&since=yesterday").want(t, http.StatusBadRequest, "expected a duration such as 15m")
	s.get(t, "/messages?view=events&from=now-1h&to=now-2h").want(t, http.StatusBadRequest, "no event can match")
	s.get(t, "/messages?view=events&cursor=x").want(t, http.StatusBadRequest, "the cursor cannot be read")
}

// The pages of a list have every event once.
func TestMessagesInPages(t *testing.T) {
	s := newSystem(t)
	const messages = 60
	for n := range messages {
		s.publish(t, fmt.Sprint("order-", n), "{}", nil)
	}
	s.await(t, 2*messages, "message.id: *")
	seen := map[string]bool{}
	page := s.get(t, "/messages?view=events&wait=1&fields=event.id,message.id")
	page.want(t, http.StatusOK, "120 events")
	for range 3 {
		for _, row := range rows(t, page) {
			if seen[row] {
				t.Errorf("%s is on two pages", row)
			}
			seen[row] = true
		}
		if len(seen) < 2*messages {
			page = s.get(t, link(t, page, "Older"))
		}
	}
	if len(seen) != 2*messages || strings.Contains(page.text, ">Older<") {
		t.Errorf("%d events on three pages", len(seen))
	}
	if page = s.get(t, link(t, page, "Newer")); page.Request.URL.Query().Has("cursor") {
		t.Errorf("newer is %s", page.Request.URL)
	}
}

// Each bar leads to its events, and the bars have all of them.
func TestMessagesHistogram(t *testing.T) {
	s := newSystem(t)
	shop(t, s)
	for _, query := range []string{"", "headers.tenant: *", "action: (handled or poisoned)"} {
		page := s.get(t, "/messages?view=events&wait=1&since=15m&q="+url.QueryEscape(query))
		bars := regexp.MustCompile(`<a href="([^"]*)" data-bar="\d+" aria-label="[^"]*: (\d+) events?"`).FindAllStringSubmatch(page.text, -1)
		sum := 0
		for _, bar := range bars {
			var count int
			if _, err := fmt.Sscan(bar[2], &count); err != nil {
				t.Fatal(err)
			}
			sum += count
			if got := rows(t, s.get(t, html.UnescapeString(bar[1]))); len(got) != count {
				t.Errorf("%q: a bar of %d events leads to %d", query, count, len(got))
			}
		}
		if want := len(rows(t, page)); sum != want {
			t.Errorf("%q: the bars have %d events, the list %d", query, sum, want)
		}
	}
	if page := s.get(t, "/messages?view=events&wait=1&q=headers.tenant%3A+*"); strings.Contains(page.text, `class="published"`) || !strings.Contains(page.text, `class="bar"`) {
		t.Error("a query of headers is evaluated for each action")
	}
}

func TestMessagesDownloads(t *testing.T) {
	s := newSystem(t)
	s.publish(t, "=cmd|' /C calc'!A0", `{"id":1}`, amqp.Table{"tenant": "a,\"b\"\n"})
	shop(t, s)
	got := s.get(t, link(t, s.get(t, "/messages?view=events&fields=message.id,headers.tenant,attempt&q=action%3A+handled"), "CSV"))
	lines, err := csv.NewReader(strings.NewReader(got.text)).ReadAll()
	slices.SortFunc(lines[1:], func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	want := "[[messaging.message.id headers.tenant watership.attempt] ['=cmd|' /C calc'!A0 a,\"b\"\n 1] [order-1 acme 1] [order-2 umbrella 1]]"
	if fmt.Sprint(lines) != want || err != nil {
		t.Errorf("got %s, %v", lines, err)
	}
	if h := got.Header.Get("Content-Disposition"); !strings.HasPrefix(h, `attachment; filename="messages-2`) || got.Header.Get("Content-Type") != "text/csv; charset=utf-8" {
		t.Errorf("%v", got.Header)
	}
	got = s.get(t, link(t, s.get(t, "/messages?view=events&q=action%3A+published"), "NDJSON"))
	var ids []string
	for line := range strings.Lines(got.text) {
		var event struct {
			Messaging struct{ Message struct{ ID string } }
			Body      map[string]any
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil || event.Body == nil {
			t.Errorf("%s: %v", line, err)
		}
		ids = append(ids, event.Messaging.Message.ID)
	}
	if len(ids) != 4 || ids[3] != "order-3" || !strings.HasPrefix(got.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("got %q, %v", ids, got.Header)
	}
	if got := s.get(t, "/messages/export.ndjson?since=all"); strings.Count(got.text, "\n") < 8 {
		t.Errorf("without a query: %s", got.text)
	}
	for _, path := range []string{"/messages/export.csv", "/messages/export.ndjson"} {
		got := s.get(t, path+"?q=acton%3A+x")
		got.want(t, http.StatusBadRequest, `no field "acton"`)
		if got.Header.Get("Content-Disposition") != "" || !strings.HasPrefix(got.Header.Get("Content-Type"), "text/html") {
			t.Errorf("a mistake is a download: %v", got.Header)
		}
	}
}

// A CSV has all pages, and of a large search every row.
func TestMessagesDownloadIsWhole(t *testing.T) {
	s := newSystem(t)
	const messages = 600
	for n := range messages {
		s.publish(t, fmt.Sprint("order-", n), "{}", nil)
	}
	s.await(t, 2*messages, "message.id: *")
	lines, err := csv.NewReader(strings.NewReader(s.get(t, "/messages/export.csv?fields=event.id").text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(lines, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	if lines = slices.CompactFunc(lines, func(a, b []string) bool { return a[0] == b[0] }); len(lines) != 2*messages+1 {
		t.Errorf("%d lines, want %d", len(lines), 2*messages+1)
	}
}

// The commands find the events that the page shows.
func TestMessagesAsCommands(t *testing.T) {
	s := newSystem(t)
	shop(t, s)
	const query = `message.id: "order-3" and error.message: "no table" or headers.tenant: "it's"`
	page := s.get(t, "/messages?view=events&since=1h&fields=message.id,error.message&q="+url.QueryEscape(query))
	pre := regexp.MustCompile(`<pre tabindex="0">([^<]*)</pre>`).FindAllStringSubmatch(page.text, -1)
	if len(pre) != 2 {
		t.Fatalf("%q", pre)
	}
	if got, want := html.UnescapeString(pre[0][1]), `watership search 'message.id: "order-3" and error.message: "no table" or headers.tenant: "it'\''s"' --since 1h --fields message.id,error.message`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", html.UnescapeString(pre[1][1])).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v %s", pre[1][1], err, out)
	}
	var found struct{ Events []map[string]any }
	if err := json.Unmarshal(out, &found); err != nil || len(found.Events) != len(rows(t, page)) || len(found.Events) != 1 {
		t.Errorf("%s finds %s, %v", pre[1][1], out, err)
	}
	for path, want := range map[string]string{
		"/messages?view=events&from=2026-05-04&to=now":                "TZ=UTC watership search --from 2026-05-04 --to now",
		"/messages?view=events&from=2026-05-04T03:00:00Z&q=-x":        "watership search --from 2026-05-04T03:00:00Z -- -x",
		"/messages?view=events&since=all&q=%40timestamp+%3E+now-1d/d": "TZ=UTC watership search '@timestamp > now-1d/d'",
		"/messages?view=events&since=all":                             "watership search",
	} {
		if page := s.get(t, path); !strings.Contains(page.text, `<pre tabindex="0">`+html.EscapeString(want)+"</pre>") {
			t.Errorf("%s has no %s:\n%s", path, want, page.words(t))
		}
	}
}

// newPages returns a console without a server, whose API and links can be others.
func newPages(t *testing.T, change func(*console.Config), settings ...string) func(path string) document {
	t.Helper()
	cfg, err := config.Load(config.Sources{Environ: append([]string{
		"WATERSHIP_AMQP_URL=" + config.Embedded, "WATERSHIP_STORE_URL=sqlite:" + filepath.Join(t.TempDir(), "store.db"), "WATERSHIP_DATA=" + t.TempDir(),
	}, settings...)})
	if err != nil {
		t.Fatal(err)
	}
	a, err := system.Start(t.Context(), system.Config{Settings: cfg, Name: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	if cfg.Store.URL.File() != "" {
		store, err := a.Store(t.Context())
		if err == nil {
			err = store.Install(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	used := console.Config{API: httpapi.New(a, nil), Stream: cfg.Store.Stream, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	change(&used)
	pages, err := console.New(used)
	if err != nil {
		t.Fatal(err)
	}
	return func(path string) document {
		request := httptest.NewRequestWithContext(access.NewContext(t.Context(), access.Identity{Name: "local", Method: access.ByLoopback, Role: access.Admin, Bodies: true}), http.MethodGet, path, http.NoBody)
		got := httptest.NewRecorder()
		pages.ServeHTTP(got, request)
		response := got.Result()
		defer response.Body.Close()
		response.Request = request
		return document{response, got.Body.String()}
	}
}

// The page says what works without the store, and tries again.
func TestMessagesWithoutStore(t *testing.T) {
	get := newPages(t, func(*console.Config) {}, "WATERSHIP_STORE_URL=http://127.0.0.1:1")
	page := get("/messages?view=events&q=action%3A+poisoned")
	page.want(t, http.StatusServiceUnavailable, "127.0.0.1:1", "Wait until the store answers", "routes", "The page tries again")
	for _, want := range []string{`data-refresh="5"`, `value="action: poisoned"`, `id="list" data-live`} {
		if !strings.Contains(page.text, want) {
			t.Errorf("no %s in\n%s", want, page.text)
		}
	}
	get("/messages/export.csv").want(t, http.StatusServiceUnavailable, "Wait until the store answers")
}

// via is a function that does operations.
type via func(ctx context.Context, op *operation.Operation, in, out any) error

func (do via) Do(ctx context.Context, op *operation.Operation, in, out any) error {
	return do(ctx, op, in, out)
}

// The list does not wait for its counts. The script does, but not for long.
func TestMessagesWithoutCounts(t *testing.T) {
	get := newPages(t, func(cfg *console.Config) {
		served := cfg.API
		cfg.API = via(func(ctx context.Context, op *operation.Operation, in, out any) error {
			if op.ID == messages.CountOverTime.ID {
				<-ctx.Done() // as a store that counts for minutes
			}
			return served.Do(ctx, op, in, out)
		})
	})
	page := get("/messages?view=events")
	page.want(t, http.StatusOK, "Counting… Load", "No event matches")
	if got := link(t, page, "Load"); got != "/messages?view=events&wait=1" {
		t.Errorf("the page with counts is %s", got)
	}
	get("/messages?view=events&wait=1").want(t, http.StatusOK, "Counting takes too long for this query", "No event matches")
}

// Kibana's names are full, and its times are in no zone.
func TestMessagesLinkToKibana(t *testing.T) {
	get := newPages(t, func(cfg *console.Config) {
		cfg.Kibana, _ = url.Parse("https://elastic:secret@kibana.example")
		cfg.Server, _ = url.Parse("https://watership.example/")
	})
	for path, want := range map[string][2]string{
		"/messages?view=events&q=action%3A+poisoned+and+queue%3A+%22a%27b%22&since=1h30m": {"(time:(from:'now-1h-30m',to:'now'))", `query:'event.action: poisoned and watership.queue: "a!'b"'`},
		"/messages?view=events&from=2026-05-04&to=2026-05-05+03:00":                       {"(time:(from:'2026-05-04T00:00:00.000Z',to:'2026-05-05T03:00:00.000Z'))", "query:''"},
		"/messages?view=events&since=all":                                                 {"(time:(from:'now-10y',to:'now'))", "(index:'watership-messages',"},
	} {
		page := get(path)
		address, hash, _ := strings.Cut(link(t, page, "Kibana"), "#/?")
		values, err := url.ParseQuery(hash)
		if err != nil || address != "https://kibana.example/app/discover" || values.Get("_g") != want[0] || !strings.Contains(values.Get("_a"), want[1]) {
			t.Errorf("%s: %s %v, %v", path, address, values, err)
		}
		if !strings.Contains(page.text, "curl -sG https://watership.example/api/v1/events") {
			t.Errorf("another server:\n%s", page.words(t))
		}
	}
	if page := get("/messages?view=events&q=acton%3A+x"); strings.Contains(page.text, "kibana.example") {
		t.Error("a mistake leads to Kibana")
	}
}

// Names, values and errors of messages are shown as texts.
func TestMessagesOfHostiles(t *testing.T) {
	s := newSystem(t)
	s.broken.Store(true)
	const hostile = `<script>alert(1)</script>"'../..?x=1#%2e` + "\u202egnp.exe\x1b[31m"
	s.publish(t, hostile, "{}", amqp.Table{`<img src=x onerror="a">`: hostile})
	s.await(t, 1, "action: published")
	s.await(t, 1, "action: poisoned")
	page := s.get(t, "/messages?view=events&fields=message.id,error.message,"+url.QueryEscape(`headers.<img src=x onerror="a">`))
	if len(rows(t, page)) != 2 {
		t.Fatalf("got %s", page.text)
	}
	for _, never := range []string{"<script>alert", "<img src=x", "\u202e", "\x1b"} {
		if strings.Contains(page.text, never) {
			t.Errorf("%q is in the page:\n%s", never, page.text)
		}
	}
	if path := regexp.MustCompile(`href="(/messages/[^"]*script[^"]*)"`).FindStringSubmatch(page.text); path == nil || strings.Count(path[1], "/") != 2 || strings.ContainsAny(path[1], "?#") {
		t.Errorf("the message is at %q", path)
	}
}

// noPages are ids that cannot be the name of a page of a message: a browser or the console takes
// them for another page.
var noPages = []string{".", "..", "validate", "export.csv", "export.ndjson"}

// Each page leads to the message, whatever its id is.
func TestOddMessageIDs(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.broken.Store(true)
	odd := append([]string{"a/b", "a/../b", "a%2Fb", "...", "?#", "/", "//"}, noPages...)
	for i, id := range odd {
		s.publish(t, id, "{}", amqp.Table{"n": i})
	}
	s.await(t, int64(2*len(odd)), "destination.name: shop")
	link := regexp.MustCompile(`href="(/messages[^"]*)"[^>]*>`)
	for _, id := range odd {
		page := s.get(t, "/messages?view=events&"+url.Values{"q": {"action: poisoned and message.id: " + strconv.Quote(id)}}.Encode())
		_, list, _ := strings.Cut(page.text, "<tbody")
		path := link.FindStringSubmatch(list)
		if path == nil {
			t.Fatalf("%q: the list has no link:\n%s", id, list)
		}
		s.get(t, asBrowser(path[1])).want(t, http.StatusOK, "Message "+id, "no table for order "+id)
	}
	examples := regexp.MustCompile(`class="clip example" href="(/messages[^"]*)"`).FindAllStringSubmatch(s.get(t, "/failures/by?fields=headers.n").text, -1)
	if len(examples) != len(odd) {
		t.Errorf("the failures have %d examples, want %d", len(examples), len(odd))
	}
	for _, href := range examples {
		s.get(t, asBrowser(href[1])).want(t, http.StatusOK, "no table for order ")
	}
}

// asBrowser returns an address of a page as a browser asks for it: without segments of dots,
// which may be escaped.
func asBrowser(href string) string {
	address, query, has := strings.Cut(html.UnescapeString(href), "?")
	var kept []string
	for segment := range strings.SplitSeq(address, "/") {
		switch strings.ReplaceAll(strings.ToLower(segment), "%2e", ".") {
		case ".":
		case "..":
			kept = kept[:len(kept)-1]
		default:
			kept = append(kept, segment)
		}
	}
	if address = strings.Join(kept, "/"); has {
		address += "?" + query
	}
	return address
}

// Viewers see neither the actions nor the bodies, nor the messages of other queues.
func TestMessagesForViewers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	s := newSystem(t, "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+path)
	shop(t, s)
	token := func(of access.Token) string {
		secret, err := access.OpenTokenFile(path).Create(of)
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + secret
	}
	operator := token(access.Token{Name: "ops", Role: access.Operator, Bodies: true})
	viewer := token(access.Token{Name: "viewer", Role: access.Viewer})
	limited := token(access.Token{Name: "limited", Role: access.Viewer, Queues: []string{"mails"}})
	s.get(t, "/messages?view=events", "Authorization", operator).want(t, http.StatusOK, "Replay these", "NDJSON with bodies", "$WATERSHIP_TOKEN")
	page := s.get(t, "/messages?view=events", "Authorization", viewer)
	page.want(t, http.StatusOK, "order-3", "CSV of the columns")
	for _, never := range []string{"Replay these", "/replays/new", "export.ndjson"} {
		if strings.Contains(page.text, never) {
			t.Errorf("a viewer sees %s", never)
		}
	}
	s.get(t, "/messages/export.ndjson", "Authorization", viewer).want(t, http.StatusForbidden, "bodies")
	s.get(t, "/messages?view=events&fields=body.json.id", "Authorization", viewer).want(t, http.StatusForbidden, "bodies")
	if got := s.get(t, "/messages/export.csv?fields=message.id", "Authorization", viewer); !strings.Contains(got.text, "order-3") {
		t.Errorf("a viewer gets %s", got.text)
	}
	if got := rows(t, s.get(t, "/messages?view=events&since=all", "Authorization", limited)); len(got) != 0 {
		t.Errorf("of other queues: %q", got)
	}
}
