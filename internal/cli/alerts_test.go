package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/alerts"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
)

// notices is a webhook that keeps what it gets.
type notices struct {
	url string

	mu   sync.Mutex // guards list
	list []notice.Notice
}

func newNotices(t *testing.T) *notices {
	t.Helper()
	n := &notices{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var one notice.Notice
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &one)
		}
		if err != nil {
			t.Error(err)
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.list = append(n.list, one)
	}))
	t.Cleanup(server.Close)
	n.url = server.URL
	return n
}

func (n *notices) all() []notice.Notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.list)
}

// about returns the statuses of alerts with a rule, in the order of the notices.
func (n *notices) about(rule string) string {
	var list []string
	for _, notice := range n.all() {
		for _, item := range notice.Alerts {
			if item.Rule == rule {
				list = append(list, item.Status)
			}
		}
	}
	return strings.Join(list, " ")
}

func (n *notices) await(t *testing.T, rule, want string) {
	t.Helper()
	servertest.Until(t, "the notices "+want+" about "+rule, func() bool { return n.about(rule) == want })
}

// alertSettings are quick rules whose alerts go to a webhook.
func alertSettings(url string) []string {
	return []string{
		"WATERSHIP_ALERTS_INTERVAL=1s", "WATERSHIP_ALERTS_GROUP_WAIT=1s", "WATERSHIP_ALERTS_GROUP_INTERVAL=1s",
		"WATERSHIP_ALERTS_RULES=[{name: fresh, on: new_group, severity: critical}, {name: held, on: paused}]",
		"WATERSHIP_ALERTS_RECEIVERS=[{name: hook, webhook: {url: '" + url + "'}}]",
	}
}

// A failure and a pause are told to the receiver, and their end. alerts, doctor and the metrics
// say what fires.
func TestAlerts(t *testing.T) {
	t.Parallel() // most of it is waiting
	broker := rabbittest.Newest(t)
	failing := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusBadRequest })
	n, i := newNotices(t), servertest.Install(t, broker, failing.URL)
	if err := broker.Channel(t).ExchangeDeclare(i.Exchange, "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	one, process := i.WithRoles(t, "routes,retry,due,poison,index,alerts", alertSettings(n.url)...)
	awaitAlerts(t, one)

	i.Must(t, "publish", "--exchange", i.Exchange, "--key", "order.created", servertest.WriteFile(t, "order.json", `{"order": 1}`))
	n.await(t, "fresh", notice.Firing)
	i.Must(t, "routes", "pause", i.Queue, "--reason", "the database moves")
	n.await(t, "held", notice.Firing)
	if out := i.Must(t, "alerts"); !strings.Contains(out, "critical") || !strings.Contains(out, "by an operator") {
		t.Errorf("alerts prints\n%s", out)
	}
	list, _ := one.Findings(t)
	servertest.WantFinding(t, list, doctor.OK, "", "alerts:", "evaluates 2 rules")
	if !strings.Contains(scrapeText(t, one), "watership_alerts_held 1") {
		t.Error("the metrics do not say that the process holds the alerts")
	}
	i.Must(t, "routes", "resume", i.Queue)
	n.await(t, "held", notice.Firing+" "+notice.Resolved)
	i.Must(t, "failed", "discard", "*", "--reason", "a test", "--yes")
	n.await(t, "fresh", notice.Firing+" "+notice.Resolved)
	if out := i.Must(t, "alerts"); !strings.HasPrefix(out, "no alert fires") {
		t.Errorf("alerts prints\n%s", out)
	}
	process.Stop(t)
	list, _ = one.Findings(t)
	servertest.WantFinding(t, list, doctor.Warning, "role alerts", "alerts: no process evaluates the rules")
}

// A test of a receiver prints what it answered, directly and through the API.
func TestAlertTest(t *testing.T) {
	t.Parallel()
	n := newNotices(t)
	w := newWithServe(t, append(alertSettings(n.url), "WATERSHIP_ALERTS_RECEIVERS=[{name: hook, webhook: {url: '"+n.url+"'}}, {name: gone, webhook: {url: 'http://127.0.0.1:1/s3cret'}}]")...)
	operator, viewer := w.token(t, "ann", access.Operator, false), w.token(t, "vic", access.Viewer, false)
	for name, environ := range map[string][]string{"directly": nil, "through serve": operator} {
		r := w.through(t, environ, "alert", "test", "hook")
		if want := "taken    hook (webhook " + n.url + "): 200 OK\n"; r.Code != exitOK || r.Out != want {
			t.Errorf("%s: %+v, want %s", name, r, want)
		}
	}
	if got := n.all(); len(got) != 2 || !got[0].Test || !strings.Contains(got[1].Alerts[0].Detail+got[0].Alerts[0].Detail, "Sent by ann") {
		t.Errorf("%+v", got)
	}
	r := w.through(t, operator, "alert", "test")
	if r.Code != exitFailed || !strings.Contains(r.Out, "taken    hook") || !strings.Contains(r.Out, "refused  gone (webhook http://127.0.0.1:1)") || strings.Contains(r.Out, "s3cret") || !strings.Contains(r.Err, "1 receiver did not take the test") {
		t.Errorf("%+v", r)
	}
	if r := w.through(t, operator, "alert", "test", "nobody"); r.Code == exitOK || !strings.Contains(r.Err, "there is no receiver nobody: expected one of hook, gone") {
		t.Errorf("%+v", r)
	}
	if r := w.through(t, viewer, "alert", "test"); r.Code != exitFailed || !strings.Contains(r.Err, "needs operator") {
		t.Errorf("%+v", r)
	}
	if r := w.through(t, viewer, "alerts"); r.Code != exitOK || r.Out != w.through(t, nil, "alerts").Out {
		t.Errorf("%+v", r)
	}
}

// A mistake in a receiver ends serve at once, with one error.
func TestServeRefusesReceivers(t *testing.T) {
	t.Parallel()
	i := servertest.InstallEmbedded(t, "http://127.0.0.1:1/")
	i.Environ = append(os.Environ(), "WATERSHIP_ALERTS_RULES=[{name: gap, on: gap}]", "WATERSHIP_ALERTS_RECEIVERS=[{name: chat, slack: {url_file: /nowhere/url}}]")
	want := "watership: alerts.receivers[0].slack.url_file: /nowhere/url: no such file or directory\n"
	if r := i.Run(t, "serve"); r.Code != exitUsage || !strings.HasSuffix(r.Err, want) {
		t.Errorf("%+v", r)
	}
}

// awaitAlerts waits for the first evaluation of the rules: groups of the time before are not
// new.
func awaitAlerts(t *testing.T, i *servertest.Installation) {
	t.Helper()
	servertest.Until(t, "the process to evaluate the rules", func() bool { return strings.Contains(scrapeText(t, i), `watership_alerts_firing{rule="fresh"`) })
}

// scrapeText returns the metrics as serve prints them.
func scrapeText(t *testing.T, i *servertest.Installation) string {
	t.Helper()
	_, body := i.Ask(t, "/metrics")
	return body
}

// The command says how many alerts a rule has beyond its limit, in every format.
func TestAlertsThatAreNotListed(t *testing.T) {
	var told strings.Builder
	to := alertPrinter{printer{Streams: terminal.Streams{Out: io.Discard, Err: &told}}}
	to.omitted(alerts.Alerts{Rules: []alerts.Rule{{Name: "all"}, {Name: "new", Omitted: 199}}})
	const want = "199 further alerts of rule new not listed: a rule has at most 500 at a time"
	if got := told.String(); !strings.Contains(got, want) || strings.Contains(got, "all") {
		t.Errorf("printed %q, want %q", got, want)
	}
}
