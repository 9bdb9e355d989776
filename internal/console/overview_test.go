package console_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"

	"github.com/watershipmq/watership/internal/console"
	"github.com/watershipmq/watership/internal/operate/alerts"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit"
)

// whole is the path of a page that waits for all of its parts.
func whole(path string) string {
	if strings.Contains(path, "?") {
		return path + "&wait=1"
	}
	return path + "?wait=1"
}

func TestOverview(t *testing.T) {
	s := newSystem(t)
	s.get(t, whole("/")).want(t, http.StatusOK, "No messages in this period", "No replay runs.", "No open failures", "1 route", "orders running")
	s.publish(t, "m-1", `{}`, nil)
	s.await(t, 1, "action: handled")
	s.broken.Store(true)
	s.publish(t, "m-2", `{}`, nil)
	s.await(t, 1, "action: poisoned")
	s.await(t, 2, "action: published")
	page := s.get(t, whole("/"))
	page.want(t, http.StatusOK, "Published 2", "Handled 1", "Retried 0", "Poisoned 1", "1 message given up", "orders 1", "ready for", "4 of 4", "All findings")
	if !strings.Contains(page.text, `href="/failures?q=queue%3A&#43;%22orders%22"`) && !strings.Contains(page.text, `href="/failures?q=queue%3A+%22orders%22"`) {
		t.Errorf("no link to the failures of the queue: %s", page.text)
	}
	for _, link := range []string{"q=action%3A+poisoned", "to=" + time.Now().UTC().Format("2006-")} {
		if !strings.Contains(strings.ReplaceAll(page.text, "&#43;", "+"), link) {
			t.Errorf("no link with %s", link)
		}
	}
}

// Alerts that fire are at the top of the overview, with links to what they are about.
func TestOverviewOfAlerts(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	s := newSystem(t, "WATERSHIP_ALERTS_INTERVAL=1s",
		"WATERSHIP_ALERTS_RULES=[{name: fresh, on: new_group, severity: critical}]", "WATERSHIP_ALERTS_RECEIVERS=[{name: hook, webhook: {url: '"+receiver.URL+"'}}]")
	if page := s.get(t, whole("/")); !strings.Contains(page.text, `id="alerts"`) || strings.Contains(page.text, "Alerts</a></h2>") {
		t.Errorf("the overview without alerts: %s", page.text)
	}
	var v alerts.Alerts
	until(t, func() bool {
		v, _ = alerts.Service{System: s.System}.List(t.Context())
		return len(v.Rules) == 1 && v.Rules[0].Evaluated != nil // failures from now on are new
	})
	s.broken.Store(true)
	s.publish(t, "m-1", `{}`, nil)
	until(t, func() bool {
		v, _ = alerts.Service{System: s.System}.List(t.Context())
		return len(v.Alerts) == 1
	})
	page := s.get(t, whole("/"))
	page.want(t, http.StatusOK, "Alerts", "1 firing: 1 new group", "1 alert", "firing", "critical", "new failures in queue orders: no table for order")
	path, ofServer := strings.CutPrefix(v.Alerts[0].Link, s.url)
	if !ofServer {
		t.Errorf("without http.url the link is %q, and not below %s, where the server listens", v.Alerts[0].Link, s.url)
	}
	s.get(t, path).want(t, http.StatusOK, "no table for order", "Mute")
	for _, at := range []string{"/", "/alerts"} {
		_, list, _ := strings.Cut(s.get(t, whole(at)).text, "1 alert</caption>")
		list, _, _ = strings.Cut(list, "</table>")
		_, group, found := strings.Cut(list, `<a href="/failures/groups/`)
		if group, _, _ = strings.Cut(group, `"`); !found {
			t.Fatalf("%s has no link to the group: %s", at, list)
		}
		s.get(t, "/failures/groups/"+group).want(t, http.StatusOK, "no table for order", "Mute")
	}

	s.get(t, whole("/alerts")).want(t, http.StatusOK, "1 alert", "firing", "fresh", "evaluates the rules", "1 rule", "1 receiver", "Send a test")
	tested := s.post(t, "/alerts/test", url.Values{"receiver": {"hook"}, "key": {"k-1"}})
	tested.want(t, http.StatusOK, "webhook", "taken")
	if path := tested.Request.URL.Path; path != "/alerts" {
		t.Errorf("the answers are at %s, which sends another test when it is read again", path)
	}
	s.post(t, "/alerts/test", url.Values{"receiver": {"other"}, "key": {"k-2"}}).want(t, http.StatusBadRequest, "there is no receiver other", "1 receiver")
	receiver.Close()
	s.post(t, "/alerts/test", url.Values{"key": {"k-3"}}).want(t, http.StatusOK, "not taken", "connection refused")
}

// Callers with limits see neither rules nor receivers, and viewers no buttons.
func TestAlertsOfOthers(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	s := newSystem(t, "WATERSHIP_ALERTS_RECEIVERS=[{name: hook, webhook: {url: '"+receiver.URL+"'}}]", "WATERSHIP_ALERTS_RULES=[{name: fresh, on: new_group}]")
	until(t, func() bool {
		v, _ := alerts.Service{System: s.System}.List(t.Context())
		return len(v.Rules) == 1 && len(v.Receivers) == 1
	})
	pages, err := console.New(console.Config{API: s.api})
	if err != nil {
		t.Fatal(err)
	}
	page := serveAs(t, pages, access.Identity{Name: "eve", Role: access.Viewer}, whole("/alerts"))
	page.want(t, http.StatusOK, "No alerts", "fresh", "hook")
	if strings.Contains(page.text, "/alerts/test") {
		t.Error("a viewer sees a form to test receivers")
	}
	page = serveAs(t, pages, access.Identity{Name: "eve", Role: access.Operator, Queues: []string{"other"}}, whole("/alerts"))
	page.want(t, http.StatusOK, "No alerts", "no rules that you may see")
	if strings.Contains(page.text, "hook") {
		t.Error("a caller with limits sees receivers")
	}
}

func until(t *testing.T, condition func() bool) {
	t.Helper()
	if !rabbittest.Poll(rabbittest.Timeout, condition) {
		t.Fatal("waited in vain")
	}
}

// What one sees first does not wait for a store that takes its time; the rest is read later.
func TestOverviewDoesNotWait(t *testing.T) {
	s := newSystem(t)
	ada := access.Identity{Name: "ada", Role: access.Admin}
	newConsole := func(pause time.Duration) http.Handler {
		pages, err := console.New(console.Config{API: slowly{s.api, pause}, Version: "test"})
		if err != nil {
			t.Fatal(err)
		}
		return pages
	}
	const pause = 10 * time.Minute
	began := time.Now()
	page := serveAs(t, newConsole(pause), ada, "/")
	if took := time.Since(began); took > pause/2 {
		t.Errorf("the page came after %s", took)
	}
	page.want(t, http.StatusOK, "Counting… Load", "Looking for failures… Load")
	if strings.Contains(page.text, "deadline") {
		t.Error("a part that is late is shown as a problem")
	}
	page = serveAs(t, newConsole(time.Second), ada, whole("/"))
	page.want(t, http.StatusOK, "No messages in this period", "No open failures")
	if strings.Contains(page.text, "data-late") {
		t.Error("the page did not wait")
	}
}

func TestOverviewOfAPeriod(t *testing.T) {
	s := newSystem(t)
	s.publish(t, "m-1", `{}`, nil)
	s.await(t, 1, "action: handled")
	s.await(t, 1, "action: published")
	s.get(t, whole("/?since=all")).want(t, http.StatusOK, "All time", "Published 1", "steps of 1 s")
	s.get(t, whole("/?since=7d")).want(t, http.StatusOK, "Last 7 days", "Published 1", "steps of 3h")
	s.get(t, whole("/?to=now-1h")).want(t, http.StatusOK, "No messages in this period")
	s.get(t, whole("/?since=tomorrow")).want(t, http.StatusBadRequest, "expected a duration such as 15m")
}

// Somebody who is limited to a queue sees that queue alone, and no findings about others.
func TestOverviewOfALimitedViewer(t *testing.T) {
	s := newSystem(t)
	s.broken.Store(true)
	s.publish(t, "m-1", `{}`, nil)
	s.await(t, 1, "action: poisoned")
	pages, err := console.New(console.Config{API: s.api})
	if err != nil {
		t.Fatal(err)
	}
	viewer := access.Identity{Name: "eve", Role: access.Viewer, Queues: []string{"payments"}, Exchanges: []string{"nothing"}}
	page := serveAs(t, pages, viewer, whole("/"))
	page.want(t, http.StatusOK, "No messages in this period", "No open failures", "No routes")
	if words := page.words(t); strings.Contains(words, "orders") || strings.Contains(words, "findings") {
		t.Errorf("a limited viewer sees %s", words)
	}
	serveAs(t, pages, viewer, whole("/doctor")).want(t, http.StatusForbidden, "eve is limited to some queues", "Ask for a token without limits.")
	serveAs(t, pages, viewer, whole("/routes")).want(t, http.StatusOK, "No routes")
}

func TestRoutes(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	t.Cleanup(service.Close)
	s := newSystem(t, `WATERSHIP_ROUTES=[{queue: failing, park: true, bind: [{exchange: shop, key: order.fail}], handler: {http: {url: "`+service.URL+`"}}}, `+
		`{queue: "<script>alert(1)</script>\u202e", retry: slow}]`, `WATERSHIP_RETRY_POLICIES={slow: {first: 1m, factor: 1, jitter: 0.5, attempts: 200, no_attempts: [{dates: 2020-01-01}], time_zone: Europe/Berlin, give_up_after: 10d, classes: {never: {delays: []}, nights: {at: ["03:00"]}}}}`)
	s.publish(t, "m-1", `{}`, nil)
	s.await(t, 1, "action: handled")
	publisher, err := s.Publisher(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := publisher.Publish(t.Context(), rabbit.Message{Exchange: "shop", RoutingKey: "order.fail"}); err != nil {
		t.Fatal(err)
	}
	s.await(t, 1, "action: retry_scheduled and queue: failing")
	page := s.until(t, whole("/routes"), "running")
	page.want(t, http.StatusOK, "3 routes", "orders", "failing", "left, attempt", "no queue", "watership.index", "watership.wait.1000",
		"4 attempts within 41 s", "200 attempts within 3h 19m, each delay shorter by up to 50 %, none on 2020-01-01 (Europe/Berlin), if the first fails now, none later than 10d after the first", "the last at 03:00, none on", "And 99 attempts more", "Errors of class never", "One attempt;")
	if strings.Contains(page.text, "<script>alert") || strings.Contains(page.words(t), "\u202e") {
		t.Error("the name of a queue is not shown as text")
	}
	if !strings.Contains(page.text, `<title>Attempt 4: 30 s after the one before, 41 s after the first</title>`) {
		t.Errorf("the picture does not have the last attempt: %s", page.text)
	}
}

func TestDoctor(t *testing.T) {
	s := newSystem(t)
	first := s.get(t, whole("/doctor"))
	first.want(t, http.StatusOK, "All checks", "broker ok answers at", "Check again")
	checked := func(page document) string {
		_, rest, _ := strings.Cut(page.text, `<time datetime="`)
		at, _, _ := strings.Cut(rest, `"`)
		return at
	}
	if again := s.get(t, whole("/doctor")); checked(again) != checked(first) {
		t.Error("the checks ran again at once")
	}
	if again := s.get(t, whole("/doctor?again=1")); checked(again) == checked(first) {
		t.Error("the checks did not run again")
	}
}

// slowly is an API that takes its time for what reads the store.
type slowly struct {
	operation.Via
	pause time.Duration
}

func (s slowly) Do(ctx context.Context, op *operation.Operation, in, out any) error {
	if strings.Contains(op.Path, "/events/") || strings.Contains(op.Path, "/failures/") {
		select {
		case <-time.After(s.pause):
		case <-ctx.Done():
		}
	}
	return s.Via.Do(ctx, op, in, out)
}

// serveAs asks a console without a server, as somebody.
func serveAs(t *testing.T, pages http.Handler, as access.Identity, path string, headers ...string) document {
	t.Helper()
	request := httptest.NewRequestWithContext(access.NewContext(t.Context(), as), http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	got := httptest.NewRecorder()
	pages.ServeHTTP(got, request)
	response := got.Result()
	response.Request = request
	return document{response, got.Body.String()}
}

// An operator pauses a route with a reason and resumes it, once for each form.
func TestPauseARoute(t *testing.T) {
	s := newSystem(t)
	if routes := s.get(t, whole("/routes")); !strings.Contains(routes.text, `action="/routes/pause"`) {
		t.Fatalf("no form to pause a route: %s", routes.text)
	}
	form := url.Values{"queue": {"orders"}, "key": {"k-1"}, "reason": {" "}}
	s.post(t, "/routes/pause", form).want(t, http.StatusUnprocessableEntity, "a pause needs a reason")
	form.Set("reason", "the <b>database</b> moves")
	for range 2 {
		s.post(t, "/routes/pause", form).want(t, http.StatusOK, "The route of orders is paused.")
	}
	s.await(t, 1, "action: paused and error.type: operator")
	page := s.get(t, whole("/routes"))
	page.want(t, http.StatusOK, "1 route, 1 paused", "paused by an operator ,", "the <b>database</b> moves (local)", "Resume")
	if strings.Contains(page.text, "<b>database") {
		t.Error("a reason is markup")
	}
	s.get(t, whole("/")).want(t, http.StatusOK, "1 route paused (orders,", "1 paused", "by an operator")
	s.get(t, whole("/doctor?again=1")).want(t, http.StatusOK, "the route of queue orders is paused by hand: the <b>database</b> moves", "watership routes resume orders")
	s.publish(t, "m-1", `{}`, nil)
	s.await(t, 1, "action: published")
	s.post(t, "/routes/resume", url.Values{"queue": {"orders"}, "key": {"k-2"}}).want(t, http.StatusOK, "The route of orders is resumed.")
	s.await(t, 1, "action: handled")
	s.until(t, whole("/routes"), "running").want(t, http.StatusOK, "1 route", "orders")
	s.post(t, "/routes/pause", url.Values{"queue": {"nothing/at all"}, "reason": {"x"}}).want(t, http.StatusBadRequest, "no route has the queue nothing/at all")
	s.await(t, 1, "action: audited and watership.audit.operation: pause and not error.type: *")
}

// An operator pauses all routes, and resumes all.
func TestPauseAllRoutes(t *testing.T) {
	s := newSystem(t)
	form := url.Values{"queue": {""}, "key": {"k-1"}, "reason": {""}}
	s.post(t, "/routes/pause", form).want(t, http.StatusUnprocessableEntity, "a pause needs a reason")
	form.Set("reason", "the brokers move")
	s.post(t, "/routes/pause", form).want(t, http.StatusOK, "All routes are paused.")
	s.await(t, 1, "action: paused and error.type: operator and not watership.queue: *")
	s.get(t, whole("/routes")).want(t, http.StatusOK, "1 route, 1 paused", "with all routes, by an operator", "the brokers move (local)", "Resume all routes")
	s.post(t, "/routes/pause", url.Values{"queue": {"orders"}, "reason": {"the database moves"}}).want(t, http.StatusOK, "The route of orders is paused.")
	s.post(t, "/routes/resume", url.Values{"queue": {"orders"}}).want(t, http.StatusOK, "The route of orders is still paused, with all routes.")
	for range 2 {
		s.post(t, "/routes/resume", url.Values{"queue": {""}, "key": {"k-2"}}).want(t, http.StatusOK, "All routes are resumed.")
	}
	s.get(t, whole("/routes")).want(t, http.StatusOK, "Pause all routes")
	s.await(t, 2, "action: resumed and error.type: operator")
	s.post(t, "/routes/resume", url.Values{"queue": {"orders"}}).want(t, http.StatusOK, "The route of orders was not paused by an operator: nothing has changed.")
}

func TestViewersPauseNothing(t *testing.T) {
	s := newSystem(t)
	pages, err := console.New(console.Config{API: s.api})
	if err != nil {
		t.Fatal(err)
	}
	s.until(t, whole("/routes"), "running")
	page := serveAs(t, pages, access.Identity{Name: "eve", Role: access.Viewer}, whole("/routes"))
	page.want(t, http.StatusOK, "orders", "running")
	if strings.Contains(page.text, "/routes/pause") {
		t.Error("a viewer sees a form to pause routes")
	}
}

// A value that the API refuses is named in the words of a page.
func TestRefusedValuesAreNamed(t *testing.T) {
	s := newSystem(t)
	form := url.Values{"queue": {"orders"}, "reason": {strings.Repeat("x", 100_000)}, "key": {"k-1"}}
	page := s.post(t, "/routes/pause", form)
	page.want(t, http.StatusUnprocessableEntity, "reason: expected length")
	if strings.Contains(page.text, "validation failed") || strings.Contains(page.text, "body.reason") {
		t.Error("the page has the words of the API")
	}
}
