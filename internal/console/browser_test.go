package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/watershipmq/watership/internal/operate/subscriptions"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// browser is a tab of a headless Chromium.
type browser struct {
	context.Context
	url string // of the system
}

// browserTimeout bounds all that a test does with its browser.
const browserTimeout = 10 * time.Minute

// chromium is the browser of all tests, or why there is none. It starts with the first test that
// needs it, since each start costs a second of the processor, and TestMain ends it.
var chromium = sync.OnceValues(func() (context.Context, error) {
	data, err := os.MkdirTemp("", "chromium")
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(os.Getenv("WATERSHIP_TEST_CHROMIUM")), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(data),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.WSURLReadTimeout(time.Minute),
	)
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, _ := chromedp.NewContext(allocator)
	endBrowser = func() {
		_ = chromedp.Cancel(ctx) // waits until it writes no more to its folder
		end()
		_ = os.RemoveAll(data)
	}
	return ctx, chromedp.Run(ctx)
})

// endBrowser ends chromium, if it was started.
var endBrowser = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	endBrowser()
	os.Exit(code)
}

// newBrowser opens a tab that looks at a system, and shares neither cookies nor storage with other tests. Without
// Chromium, the test is skipped.
func newBrowser(t *testing.T, s served) browser {
	t.Helper()
	if os.Getenv("WATERSHIP_TEST_CHROMIUM") == "" {
		if os.Getenv("WATERSHIP_TEST_REQUIRED") != "" {
			t.Fatal("WATERSHIP_TEST_CHROMIUM is not set")
		}
		t.Skip("WATERSHIP_TEST_CHROMIUM is not set (scripts/fixtures chromium)")
	}
	ctx, err := chromium()
	if err != nil {
		t.Fatalf("starting Chromium: %v", err)
	}
	// chromedp.WithNewBrowserContext asks for a tab in a window that there is not.
	commands := cdp.WithExecutor(ctx, chromedp.FromContext(ctx).Browser)
	profile, err := target.CreateBrowserContext().Do(commands)
	if err != nil {
		t.Fatalf("creating a profile of the browser: %v", err)
	}
	t.Cleanup(func() { _ = target.DisposeBrowserContext(profile).Do(commands) })
	tab, err := target.CreateTarget("about:blank").WithBrowserContextID(profile).WithNewWindow(true).Do(commands)
	if err != nil {
		t.Fatalf("opening a tab: %v", err)
	}
	ctx, cancel := chromedp.NewContext(ctx, chromedp.WithTargetID(tab))
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, browserTimeout)
	t.Cleanup(cancel)
	b := browser{ctx, s.url}
	b.do(t, "opening the browser", emulation.SetTimezoneOverride("Europe/Berlin"), emulation.SetFocusEmulationEnabled(true))
	return b
}

func (b browser) do(t *testing.T, what string, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(b, actions...); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// open shows a page.
func (b browser) open(t *testing.T, path string) {
	t.Helper()
	b.do(t, "opening "+path, chromedp.Navigate(b.url+path), chromedp.WaitReady("main"))
}

// click presses what a CSS selector finds, once it is visible and all of the page is there: late parts move the others.
func (b browser) click(t *testing.T, selector string) {
	t.Helper()
	b.awaits(t, `document.readyState === "complete" && !document.querySelector("[data-late]")`)
	b.do(t, "clicking "+selector, chromedp.Click(selector, chromedp.ByQuery, chromedp.NodeVisible))
}

// settles waits until the page is not read again by itself.
func (b browser) settles(t *testing.T) {
	t.Helper()
	b.do(t, "waiting for the last refresh", chromedp.Poll("document.body.dataset.refresh === undefined", nil, chromedp.WithPollingTimeout(rabbittest.Timeout)))
}

// enterButton presses a button with the keyboard: live parts of a page do not move the focus.
func (b browser) enterButton(t *testing.T, selector string) {
	t.Helper()
	b.do(t, "pressing "+selector, chromedp.Focus(selector, chromedp.ByQuery), chromedp.KeyEvent(kb.Enter))
}

// enter replaces the text of a field, once all of the page is there: chromedp loses its place when nodes are replaced.
func (b browser) enter(t *testing.T, selector, text string) {
	t.Helper()
	b.awaits(t, fmt.Sprintf(`document.readyState === "complete" && !document.querySelector("[data-late]") && document.querySelector(%q) !== null`, selector))
	b.do(t, "entering into "+selector, chromedp.Clear(selector, chromedp.ByQuery), chromedp.SendKeys(selector, text, chromedp.ByQuery))
}

// sees waits until a CSS selector finds an element with a text.
func (b browser) sees(t *testing.T, selector, text string) {
	t.Helper()
	b.awaits(t, fmt.Sprintf(`[...document.querySelectorAll(%q)].some((e) => e.innerText.replace(/\s+/g, " ").includes(%q))`, selector, text))
}

// awaits waits until an expression of JavaScript is true, in this page or in a next one.
func (b browser) awaits(t *testing.T, condition string) {
	t.Helper()
	var is bool
	pause := 10 * time.Millisecond
	for deadline := time.Now().Add(rabbittest.Timeout); !is; time.Sleep(pause) {
		pause = min(2*pause, 300*time.Millisecond)
		err := chromedp.Run(b, chromedp.Evaluate(condition, &is)) // fails between two pages
		if time.Now().After(deadline) || b.Err() != nil {
			var page, at string
			_ = chromedp.Run(b, chromedp.Evaluate("document.body.innerText", &page), chromedp.Location(&at))
			t.Fatalf("%s: not %s: %v\n%s", at, condition, err, page)
		}
	}
}

// value evaluates an expression of JavaScript.
func value[T any](t *testing.T, b browser, expression string) (result T) {
	t.Helper()
	b.do(t, expression, chromedp.Evaluate(expression, &result))
	return result
}

// look sets the width of the window and the colour scheme.
func (b browser) look(t *testing.T, width int64, scheme string) {
	t.Helper()
	b.do(t, "setting the window", emulation.SetDeviceMetricsOverride(width, 900, 1, width < 500),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
}

// barriers returns the serious faults that axe finds in the page.
func (b browser) barriers(t *testing.T) []string {
	t.Helper()
	path := os.Getenv("WATERSHIP_TEST_AXE")
	if path == "" {
		t.Fatal("WATERSHIP_TEST_AXE is not set (scripts/fixtures axe)")
	}
	script, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b.do(t, "loading axe", chromedp.Evaluate(string(script)+"; 0", nil))
	var text string
	b.do(t, "running axe", chromedp.Evaluate(`axe.run().then((r) => JSON.stringify(r.violations))`, &text, awaitPromise))
	var found []struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML, FailureSummary string }
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, f := range found {
		if f.Impact != "serious" && f.Impact != "critical" {
			continue
		}
		for _, node := range f.Nodes[:min(3, len(f.Nodes))] {
			list = append(list, fmt.Sprintf("%s (%s): %s: %s", f.ID, f.Help, node.HTML, strings.Join(strings.Fields(node.FailureSummary), " ")))
		}
	}
	return list
}

func awaitPromise(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// An alert links to a message. Its group is replayed: a canary first, then the rest.
func TestFromAnAlertToTheReplay(t *testing.T) {
	s := newSystem(t)
	s.broken.Store(true)
	for n := range 5 {
		s.publish(t, fmt.Sprint("order-", n), `{"order":7}`, nil)
	}
	s.await(t, 5, "action: poisoned")
	s.broken.Store(false)
	b := newBrowser(t, s)
	b.open(t, "/messages/order-3")
	b.sees(t, "#now", "orders failed")
	b.do(t, "pressing f", chromedp.KeyEvent("f"))
	b.sees(t, "main", "5 failures in 1 group")
	b.click(t, `a[href^="/replays/new"].small`)
	b.sees(t, "main", "Plan: 5 messages to send")
	b.sees(t, "main", "queue orders")
	b.enter(t, "input[name=canary]", "2")
	b.click(t, "form:has(input[name=canary]) button")
	b.sees(t, "#state", "2 of 5 messages sent")
	b.sees(t, "#state", "Outcome of the canary")
	b.sees(t, "#state", "2 handled 0 failed")
	b.settles(t)
	b.enterButton(t, "#rest ~ form button.main")
	b.sees(t, "#state", "5 of 5 messages sent")
	b.sees(t, "#state", "5 handled 0 failed")
	b.open(t, "/failures")
	b.sees(t, "main", "No unresolved failures")
	if lives := s.count(t, "action: handled and queue: orders"); lives != 5 {
		t.Errorf("%d messages were handled, want 5", lives)
	}
}

// A page that nobody sees asks for nothing, and goes on when it is shown again.
func TestHiddenPagesAskForNothing(t *testing.T) {
	s := newSystem(t)
	b := newBrowser(t, s)
	b.do(t, "hiding pages by a variable", chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := cdppage.AddScriptToEvaluateOnNewDocument(`window.away = false; window.asked = 0;
			Object.defineProperty(document, "hidden", {get: () => window.away});
			const ask = window.fetch; window.fetch = (...args) => { window.asked++; return ask(...args); };
			const wait = window.setTimeout; window.setTimeout = (f, ms) => wait(f, ms / 100);`).Do(ctx)
		return err
	}))
	b.open(t, "/messages/unknown")
	const more = `(async () => { const before = window.asked; for (let i = 0; i < 20; i++) await new Promise((r) => setTimeout(r, 5000)); return window.asked - before; })()`
	asked := func() (n int) {
		t.Helper()
		b.do(t, "counting requests", chromedp.Evaluate(more, &n, awaitPromise))
		return n
	}
	asksAgain := func() {
		t.Helper()
		n := value[int](t, b, "window.asked")
		b.do(t, "waiting for a request", chromedp.Poll(fmt.Sprintf("window.asked > %d", n), nil, chromedp.WithPollingTimeout(rabbittest.Timeout)))
	}
	asksAgain() // while it is seen
	b.do(t, "hiding the page", chromedp.Evaluate(`window.away = true; 0`, nil))
	asked() // one may be under way
	if n := asked(); n > 0 {
		t.Errorf("a hidden page has sent %d requests", n)
	}
	b.do(t, "showing the page", chromedp.Evaluate(`window.away = false; document.dispatchEvent(new Event("visibilitychange")); 0`, nil))
	asksAgain()
}

// widths are those of a phone, a tablet and a large screen.
func widths() []int64 { return []int64{360, 800, 1600} }

// screens are the color schemes and widths in which a page is checked. The layout of a page
// depends on its width, and its contrasts on its scheme. All of them take minutes, so that the
// long tests have them, and others take one, as the name of the page chooses.
func screens(page string) map[string][]int64 {
	if os.Getenv("WATERSHIP_TEST_SOAK") != "" || os.Getenv("WATERSHIP_TEST_PICTURES") != "" {
		return map[string][]int64{"light": widths(), "dark": widths()}
	}
	if crc32.ChecksumIEEE([]byte(page))%2 == 0 {
		return map[string][]int64{"light": {800}}
	}
	return map[string][]int64{"dark": {360}}
}

// Each page has no serious barrier, in light and dark, and no page scrolls sideways.
func TestPagesHaveNoBarriers(t *testing.T) {
	schema := filepath.Join(t.TempDir(), "order.json")
	if err := os.WriteFile(schema, []byte(`{"required": ["total"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSystem(t, `WATERSHIP_ROUTES=[{queue: checked, schema: `+schema+`, handler: {http: {url: "http://127.0.0.1:9/"}}}]`)
	job := s.fill(t)
	adopted := s.post(t, "/adoptions", url.Values{"queue": {"orders"}, "format": {"spring"}}).Request.URL.Path
	request := subscriptions.Request{Name: "index", Query: "action: replayed", From: "now", Queue: "orders"}
	if _, err := (subscriptions.Service{System: s.System}).Subscribe(t.Context(), request, subscriptions.Caller{Name: "ann"}); err != nil {
		t.Fatal(err)
	}
	s.post(t, "/searches", url.Values{"name": {"Orders"}, "address": {"/messages?q=queue%3A+orders"}})
	preview := s.only(t, "action: poisoned and message.id: order-3").Fingerprint
	b := newBrowser(t, s)
	for n, path := range []string{
		"/?wait=1", "/messages", "/messages?view=events", "/messages?preview=" + url.QueryEscape(preview), "/searches", "/waiting", "/alerts?wait=1", "/messages/order-3", "/messages/order-3/explain", "/messages/order-3/copy", "/messages/order-3/edit", "/messages/order-3/discard", "/failures", "/failures?view=list",
		"/failures/discard?q=queue%3A+orders", "/replays", "/replays/new?q=action%3A+poisoned&target=failed_queue", "/replays/" + job, "/routes?wait=1", "/map?wait=1", "/times", "/doctor?wait=1", "/nothing",
		"/messages/validate?queue=orders", "/messages/validate?queue=checked&since=all", "/routes/policy?queue=orders&action=add", "/routes/reload", "/adoptions", adopted, "/subscriptions", "/subscriptions/index", "/subjects",
	} {
		for scheme, widths := range screens(fmt.Sprint(n)) {
			for _, width := range widths {
				b.look(t, width, scheme)
				b.open(t, path)
				if wide := value[int64](t, b, "document.documentElement.scrollWidth"); wide > width {
					t.Errorf("%s is %d pixels wide on a screen of %d", path, wide, width)
				}
				for _, barrier := range b.barriers(t) {
					t.Errorf("%s, %s, %d pixels: %s", path, scheme, width, barrier)
				}
				b.picture(t, fmt.Sprintf("%s-%s-%d", pictureName(strings.NewReplacer(job, "job", adopted, "adoption").Replace(path)), scheme, width))
			}
		}
	}
}

// fill makes messages that were handled and messages that failed, and replays some. It
// returns the id of the job.
func (s served) fill(t *testing.T) (job string) {
	t.Helper()
	for n := range 3 {
		s.publish(t, fmt.Sprint("order-", n), `{"order":7,"items":["lettuce"]}`, amqp.Table{"tenant": "acme"})
	}
	s.await(t, 3, "action: handled")
	s.broken.Store(true)
	for n := range 4 {
		s.publish(t, fmt.Sprint("order-", n+3), `{"order":7,"items":["lettuce"]}`, amqp.Table{"tenant": "acme", "n": int32(7)})
	}
	s.await(t, 4, "action: poisoned")
	s.broken.Store(false)
	page := s.get(t, "/replays/new?ids=order-6&target=failed_queue")
	action, form := page.form(t, "Send 1 message")
	started := s.post(t, action, form)
	s.await(t, 4, "action: handled")
	return path.Base(started.Request.URL.Path)
}

func pictureName(path string) string {
	if name := strings.Trim(strings.NewReplacer("/", "-", "?", "-", "=", "-", "&", "-").Replace(path), "-"); name != "" {
		return name
	}
	return "overview"
}

// picture writes a picture of the whole page into the folder of WATERSHIP_TEST_PICTURES, if
// that is set.
func (b browser) picture(t *testing.T, name string) {
	t.Helper()
	folder := os.Getenv("WATERSHIP_TEST_PICTURES")
	if folder == "" {
		return
	}
	var image []byte
	b.do(t, "taking a picture", chromedp.FullScreenshot(&image, 100))
	if err := os.WriteFile(filepath.Join(folder, name+".png"), image, 0o644); err != nil {
		t.Error(err)
	}
}
