package rule_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/operate/alerts/rule"
	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

// rig is a system with an embedded store.
type rig struct {
	muted string // by whom and until when the groups of the latest evaluation are

	memory json.RawMessage // of rules before their first evaluation
	*testing.T
	store    *sqlite.Store
	system   rule.System
	sequence int64
	waiting  map[string]int
	routes   []routes.RouteState
	findings []doctor.Finding
}

func newRig(t *testing.T) *rig {
	t.Helper()
	store := systemtest.Store(t)
	console, _ := url.Parse("https://watership.example")
	r := &rig{T: t, store: store, sequence: time.Now().UnixMicro() - 1_000_000}
	r.system = rule.System{
		Source: "shop", Store: store, Console: console,
		Failures: func(ctx context.Context) (history.Failures, error) {
			return history.NewFailures(ctx, store, []string{"orders"})
		},
		Routes:   func(context.Context) ([]routes.RouteState, error) { return r.routes, nil },
		Diagnose: func(context.Context) []doctor.Finding { return r.findings },
		Waiting:  func(context.Context) (map[string]int, error) { return r.waiting, nil },
	}
	return r
}

// event stores an event of a message.
func (r *rig) event(action schemas.Action, queue, message, text string, change ...func(*schemas.Event)) {
	r.Helper()
	r.sequence += 10
	e := schemas.Event{Action: action, Sequence: r.sequence, Source: "shop"}
	e.EventID, e.Time, e.Queue, e.Message, e.Fingerprint = fmt.Sprint("e-", r.sequence), time.Now(), queue, message, "v1:"+message
	if text != "" {
		e.Failure = schemas.Failure{Type: "error", Class: strings.Fields(text)[0], Message: text}
	}
	for _, change := range change {
		change(&e)
	}
	if _, err := r.store.Create(r.Context(), []schemas.Document{schemas.DocumentFormat{}.Document(e)}); err != nil {
		r.Fatal(err)
	}
}

// rule evaluates a rule again and again, with the memory of the time before.
func (r *rig) rule(yaml string) func() []string {
	r.Helper()
	settings := config.Alerts{Receivers: []config.AlertReceiver{{Name: "ops"}}}
	file := filepath.Join(r.TempDir(), "w.yaml")
	if err := os.WriteFile(file, []byte("alerts:\n  receivers: [{name: ops, slack: {url_file: /u}}]\n  rules: [{name: r, "+yaml+"}]\n"), 0o600); err != nil {
		r.Fatal(err)
	}
	cfg, err := config.Load(config.Sources{File: file})
	if err != nil {
		r.Fatal(err)
	}
	settings.Rules = cfg.Alerts.Rules
	rules, err := rule.New(settings, r.system, kql.Parse)
	if err != nil || len(rules) != 1 || !slices.Equal(rules[0].Receivers, []string{"ops"}) {
		r.Fatalf("%+v, %v", rules, err)
	}
	memory := r.memory
	return func() []string {
		r.Helper()
		found, next, err := rules[0].Evaluate(r.Context(), memory)
		if err != nil {
			r.Fatal(err)
		}
		r.muted = ""
		for _, a := range found {
			r.muted += a.Muted
		}
		memory = next
		return summaries(found)
	}
}

func summaries(found []notice.Alert) []string {
	list := []string{}
	for _, a := range found {
		if a.Muted != "" {
			continue
		}
		list = append(list, a.Summary)
	}
	return list
}

func (r *rig) expect(got []string, want ...string) {
	r.Helper()
	if !slices.Equal(got, want) {
		r.Errorf("got %q\nwant %q", got, want)
	}
}

// A group is new with its first failure, and holds until its failures are resolved. It has
// regressed when it fails again after that.
func TestGroups(t *testing.T) {
	r := newRig(t)
	r.event(schemas.Poisoned, "orders", "m1", "stock is low")
	fresh, again := r.rule("on: new_group"), r.rule("on: regressed")
	const (
		isNew = "new failures in queue orders: price is wrong"
		isOld = "failures again, after all were resolved, in queue orders: price is wrong"
	)
	check := func(wantFresh, wantAgain []string) {
		t.Helper()
		r.expect(fresh(), wantFresh...)
		r.expect(again(), wantAgain...)
	}
	check(nil, nil) // groups of the time before are known
	r.event(schemas.Poisoned, "orders", "m2", "stock is low")
	check(nil, nil)
	r.event(schemas.Poisoned, "orders", "m3", "price is wrong")
	r.event(schemas.Poisoned, "orders", "m4", "price is wrong")
	check([]string{isNew}, nil)
	r.event(schemas.Poisoned, "orders", "m5", "price is wrong")
	r.event(schemas.Discarded, "orders", "m3", "")
	r.event(schemas.Discarded, "orders", "m4", "")
	check([]string{isNew}, nil)
	r.event(schemas.Handled, "orders", "m5", "")
	check(nil, nil)
	r.event(schemas.Poisoned, "orders", "m6", "price is wrong")
	check(nil, []string{isOld})
	r.event(schemas.Poisoned, "orders", "m7", "price is wrong")
	check(nil, []string{isOld})
	r.event(schemas.Discarded, "orders", "m6", "")
	r.event(schemas.Discarded, "orders", "m7", "")
	r.event(schemas.Poisoned, "orders", "m8", "price is wrong")
	check(nil, []string{isOld})
	r.event(schemas.Discarded, "orders", "m8", "")
	check(nil, nil)
	r.event(schemas.Poisoned, "orders", "m9", "mail bounced")
	r.event(schemas.Discarded, "orders", "m9", "")
	r.event(schemas.Poisoned, "orders", "m10", "mail bounced")
	r.expect(again(), "failures again, after all were resolved, in queue orders: mail bounced")
}

// A group that is open does not regress, however old its open failure is. Failures of another
// source are another system's.
func TestOpenGroupDoesNotRegress(t *testing.T) {
	r := newRig(t)
	r.event(schemas.Poisoned, "orders", "old", "stock is low", func(e *schemas.Event) { e.Sequence -= (40 * 24 * time.Hour).Microseconds() })
	r.event(schemas.Poisoned, "orders", "m1", "stock is low")
	r.event(schemas.Discarded, "orders", "m1", "")
	again, fresh := r.rule("on: regressed"), r.rule("on: new_group, query: 'watership.queue: orders'")
	r.expect(again())
	r.expect(fresh())
	r.event(schemas.Poisoned, "orders", "m2", "stock is low")
	r.event(schemas.Poisoned, "orders", "m3", "other error", func(e *schemas.Event) { e.Source = "bank" })
	r.event(schemas.Poisoned, "mails", "m4", "mail bounced")
	r.expect(again())
	r.expect(fresh())
	r.event(schemas.Discarded, "orders", "m2", "")
	r.event(schemas.Discarded, "orders", "old", "")
	r.event(schemas.Poisoned, "orders", "m5", "stock is low")
	r.expect(again(), "failures again, after all were resolved, in queue orders: stock is low")
}

// Failures that a former version of Watership put into another group are not new. Others that it
// would have put there are.
func TestFormerGroups(t *testing.T) {
	r := newRig(t)
	text := func(kind string) string {
		return "http://erp:80 answered 400 Bad Request: {\n \"error\": \"" + kind + "\"\n}"
	}
	formerly := func(e *schemas.Event) { e.Failure.Group = e.Failure.FormerErrorGroup(e.Queue) }
	r.event(schemas.Poisoned, "orders", "m1", text("unknown currency"), formerly)
	fresh := r.rule("on: new_group")
	r.expect(fresh())
	r.event(schemas.Poisoned, "orders", "m2", text("unknown currency"))
	r.expect(fresh())
	r.event(schemas.Poisoned, "orders", "m3", text("payment lost"))
	if found := fresh(); len(found) != 1 || !strings.Contains(found[0], "payment lost") {
		t.Errorf("found %q", found)
	}
}

// A muted group has no alert. When its time or its count has passed, it has one again.
func TestMutedGroups(t *testing.T) {
	r := newRig(t)
	fresh, again := r.rule("on: new_group"), r.rule("on: regressed")
	r.expect(fresh())
	r.expect(again())
	const isNew = "new failures in queue orders: price is wrong"
	r.event(schemas.Poisoned, "orders", "m1", "price is wrong")
	r.expect(fresh(), isNew)
	kind := history.Kind{Queue: "orders", Class: "price", Type: "error", Group: "price is wrong"}
	decide := func(c failures.Change) {
		r.event(schemas.Triaged, "orders", "", "", func(e *schemas.Event) { e.State = c.Event(kind, "ada", time.Now()) })
	}
	decide(failures.Change{Decision: failures.Muted, Count: 2, Reason: "few"})
	if r.expect(fresh()); r.muted != "by ada up to 2 further failures: few" {
		t.Errorf("muted %s", r.muted)
	}
	r.expect(fresh())
	r.event(schemas.Poisoned, "orders", "m2", "price is wrong")
	r.expect(fresh())
	r.event(schemas.Poisoned, "orders", "m3", "price is wrong")
	r.expect(fresh(), isNew)
	decide(failures.Change{Decision: failures.Muted, Until: time.Now().Add(time.Hour), Reason: "late"})
	r.expect(fresh())
	decide(failures.Change{Decision: failures.Unmuted})
	r.expect(fresh(), isNew)
	r.expect(again())
}

// A group that an operator has resolved regresses with the next failure, even if one of the
// failures before is open.
func TestResolvedGroupRegresses(t *testing.T) {
	r := newRig(t)
	again := r.rule("on: regressed")
	r.expect(again())
	r.event(schemas.Poisoned, "orders", "m1", "price is wrong")
	r.expect(again())
	resolved := failures.Change{Decision: failures.Resolved, Reason: "fixed", UpTo: r.sequence}
	kind := history.Kind{Queue: "orders", Class: "price", Type: "error", Group: "price is wrong"}
	r.event(schemas.Triaged, "orders", "", "", func(e *schemas.Event) { e.State = resolved.Event(kind, "ada", time.Now()) })
	r.expect(again())
	r.event(schemas.Poisoned, "orders", "m2", "price is wrong")
	r.expect(again(), "failures again, after all were resolved, in queue orders: price is wrong")
}

// An alert has the text of the failure that made it, not of a newer one.
func TestTextOfAGroup(t *testing.T) {
	r := newRig(t)
	fresh, again := r.rule("on: new_group"), r.rule("on: regressed")
	r.expect(fresh())
	r.expect(again())
	r.event(schemas.Poisoned, "orders", "m1", "item 1 is lost")
	r.event(schemas.Poisoned, "orders", "m2", "item 2 is lost")
	r.event(schemas.Handled, "orders", "m2", "")
	r.expect(fresh(), "new failures in queue orders: item 1 is lost")
	r.event(schemas.Discarded, "orders", "m1", "")
	r.expect(again())
	r.event(schemas.Poisoned, "orders", "m3", "item 3 is lost")
	r.event(schemas.Poisoned, "orders", "m4", "item 4 is lost")
	r.event(schemas.Handled, "orders", "m4", "")
	r.expect(again(), "failures again, after all were resolved, in queue orders: item 3 is lost")
}

// A group regresses with a failure that came while an operator resolved it, wherever the
// evaluations are among the failure, the discards and the resolution.
func TestFailureDuringAResolution(t *testing.T) {
	kind := history.Kind{Queue: "orders", Class: "price", Type: "error", Group: "price is wrong"}
	for evaluated := range 1 << 4 { // after which of the four events
		r := newRig(t)
		again := r.rule("on: regressed")
		r.expect(again())
		evaluate := func(place int, want ...string) {
			t.Helper()
			if evaluated&(1<<place) != 0 {
				r.expect(again(), want...)
			}
		}
		r.event(schemas.Poisoned, "orders", "m1", "price is wrong")
		resolved := failures.Change{Decision: failures.Resolved, Reason: "fixed", UpTo: r.sequence}
		evaluate(0)
		r.event(schemas.Poisoned, "orders", "m2", "price is wrong")
		evaluate(1)
		r.event(schemas.Discarded, "orders", "m1", "")
		evaluate(2)
		r.event(schemas.Triaged, "orders", "", "", func(e *schemas.Event) { e.State = resolved.Event(kind, "ada", time.Now()) })
		isBack := "failures again, after all were resolved, in queue orders: price is wrong"
		evaluate(3, isBack)
		r.event(schemas.Poisoned, "orders", "m3", "price is wrong")
		r.expect(again(), isBack)
		r.event(schemas.Discarded, "orders", "m2", "")
		r.expect(again(), isBack)
		r.event(schemas.Discarded, "orders", "m3", "")
		r.expect(again())
		r.event(schemas.Triaged, "orders", "", "", func(e *schemas.Event) { e.State = resolved.Event(kind, "bob", time.Now()) })
		r.expect(again())
	}
}

// An evaluation reads no further than the record is complete.
func TestGroupsWaitForTheWatermark(t *testing.T) {
	r := newRig(t)
	r.event(schemas.Handled, "orders", "m0", "")
	fresh := r.rule("on: new_group")
	r.expect(fresh())
	r.watermark(r.sequence + 5)
	r.event(schemas.Poisoned, "orders", "m1", "stock is low")
	r.expect(fresh())
	r.watermark(r.sequence)
	r.expect(fresh(), "new failures in queue orders: stock is low")
}

func (r *rig) watermark(sequence int64) {
	r.Helper()
	w := eventstore.Watermarks{Source: "shop", Queues: map[string]eventstore.Watermark{"watership.index": {Session: "s", Sequence: sequence, Updated: time.Now()}}}
	document, _ := json.Marshal(w)
	_, version, err := r.store.Record(r.Context(), eventstore.WatermarkRecord, "shop")
	if err == nil && version == "" {
		_, err = r.store.CreateRecord(r.Context(), eventstore.WatermarkRecord, "shop", document)
	} else if err == nil {
		_, err = r.store.SaveRecord(r.Context(), eventstore.WatermarkRecord, "shop", version, document)
	}
	if err != nil {
		r.Fatal(err)
	}
}

// Failures are counted by queue, by class or all together, the latest alone.
func TestCounts(t *testing.T) {
	r := newRig(t)
	byQueue := r.rule("on: poisoned, more_than: 2, within: 10m")
	byClass := r.rule("on: poisoned, more_than: 2, within: 10m, by: class")
	all := r.rule("on: poisoned, more_than: 4, within: 10m, by: none, query: 'not watership.class: price'")
	r.expect(byQueue())
	for i, text := range []string{"stock is low", "stock is low", "price is wrong", "price is wrong"} {
		r.event(schemas.Poisoned, []string{"orders", "mails"}[i%2], fmt.Sprint("m", i), text)
	}
	r.event(schemas.Poisoned, "mails", "late", "stock is low", func(e *schemas.Event) { e.Time = e.Time.Add(-11 * time.Minute) })
	r.event(schemas.RetryScheduled, "mails", "again", "stock is low")
	r.expect(byQueue())
	r.expect(byClass())
	r.event(schemas.Poisoned, "mails", "m8", "stock is low")
	r.expect(byQueue(), "3 failures in 10m of queue mails")
	r.expect(byClass(), "3 failures in 10m of class stock")
	r.expect(all())
	r.event(schemas.Poisoned, "a", "m9", "")
	r.event(schemas.Poisoned, "b", "m10", "")
	r.expect(all(), "5 failures in 10m")
	r.event(schemas.Poisoned, "c", "m11", "")
	r.expect(byClass(), "3 failures in 10m of class stock", "3 failures in 10m without a class")
}

// An event whose time is later than now counts from its recording on, and no longer than others.
func TestCountsOfAClockThatWasAhead(t *testing.T) {
	r := newRig(t)
	evaluate := r.rule("on: poisoned, more_than: 1, within: 10m")
	ahead := func(e *schemas.Event) { e.Time = time.Now().Add(24 * time.Hour) }
	now := r.sequence
	r.sequence = time.Now().Add(-11 * time.Minute).UnixMicro()
	for n := range 3 {
		r.event(schemas.Poisoned, "orders", fmt.Sprint("old", n), "broken", ahead)
	}
	if got := evaluate(); len(got) > 0 {
		t.Errorf("failures that were recorded 11 minutes ago: %q", got)
	}
	r.sequence = now
	for n := range 3 {
		r.event(schemas.Poisoned, "orders", fmt.Sprint("new", n), "broken", ahead)
	}
	if got := evaluate(); !slices.Equal(got, []string{"3 failures in 10m of queue orders"}) {
		t.Errorf("failures of now: %q", got)
	}
}

// A queue is slow while the 95th percentile of the chosen time is above the duration, and no longer
// when its slow attempts are older than the period.
func TestSlow(t *testing.T) {
	r := newRig(t)
	total := r.rule("on: slow, slower_than: 2s, within: 10m")
	queue := r.rule("on: slow, slower_than: 2s, within: 10m, time: queue, query: 'not watership.class: price'")
	handler := r.rule("on: slow, slower_than: 2s, within: 10m, time: handler")
	r.expect(total())
	took := func(queue, handler, total time.Duration) func(*schemas.Event) {
		return func(e *schemas.Event) { e.QueueTime, e.Duration, e.TotalTime = queue, handler, total }
	}
	for n := range 20 {
		r.event(schemas.Handled, "orders", fmt.Sprint("m", n), "", took(time.Millisecond, time.Second, time.Second))
	}
	r.event(schemas.Handled, "orders", "late", "", took(time.Hour, time.Hour, time.Hour), func(e *schemas.Event) { e.Time = e.Time.Add(-11 * time.Minute) })
	r.event(schemas.Handled, "orders", "one of 21", "", took(time.Hour, time.Millisecond, time.Hour))
	r.event(schemas.Resumed, "orders", "no attempt", "", took(0, time.Hour, 0), took(0, time.Hour, 0))
	r.expect(total())
	r.expect(queue())
	r.event(schemas.Handled, "orders", "two of 22", "", took(time.Hour, time.Millisecond, 3*time.Second))
	r.event(schemas.Poisoned, "mails", "m", "price is wrong", took(3*time.Second, 0, 0))
	r.event(schemas.RetryScheduled, "stock", "m", "stock is low", took(time.Millisecond, 3*time.Second, 0))
	r.expect(total(), "queue orders is slow: p95 3 s from publish to handled, in 10m")
	r.expect(queue(), "queue orders is slow: p95 1h in the queue, in 10m")
	r.expect(handler(), "queue stock is slow: p95 3 s in the handler, in 10m")
	for n := range 20 {
		r.event(schemas.Handled, "orders", fmt.Sprint("n", n), "", took(time.Millisecond, time.Second, time.Second))
	}
	r.expect(total())
}

func TestPaused(t *testing.T) {
	r, at := newRig(t), time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	paused := r.rule("on: paused")
	r.expect(paused())
	r.routes = []routes.RouteState{
		{Queue: "orders", State: "paused", ByHand: true, Error: "the database moves"},
		{Queue: "mails", State: "running"},
		{Queue: "tills", State: "paused", WithAll: true, Error: "the database moves"},
		{Queue: "bills", State: "paused", Since: &at, Error: "connection refused"},
	}
	r.expect(paused(), "the route of queue orders is paused by an operator", "the route of queue tills is paused with all routes, by an operator", "the route of queue bills is paused since its messages fail")
}

// Errors of doctor are alerts, those of a check together; warnings are none.
func TestDoctor(t *testing.T) {
	r := newRig(t)
	check := r.rule("on: doctor")
	r.findings = []doctor.Finding{
		{Check: "broker", Verdict: doctor.OK, Detail: "RabbitMQ 4"},
		{Check: "limits", Verdict: doctor.Error, Detail: "queue a is limited", Remedy: "remove it"},
		{Check: "limits", Verdict: doctor.Error, Detail: "queue b is limited"},
		{Check: "paused", Verdict: doctor.Warning, Detail: "a route is paused"},
		{Check: "broker", Verdict: doctor.Error, Detail: "disk"},
	}
	r.expect(check(), "doctor: broker: disk", "doctor: limits: queue a is limited")
}

// The record is behind if its watermark is, or if messages wait that no process indexes.
func TestLag(t *testing.T) {
	r := newRig(t)
	late, later := r.rule("on: lag, behind: 5m"), r.rule("on: lag, behind: 1h")
	r.expect(late())
	r.watermark(time.Now().Add(-4 * time.Minute).UnixMicro())
	r.expect(late())
	r.watermark(time.Now().Add(-7*time.Minute - time.Second).UnixMicro())
	r.waiting = map[string]int{"watership.index": 12}
	if got := late(); len(got) != 1 || !strings.HasPrefix(got[0], "the record of messages is 7m ") || !strings.HasSuffix(got[0], "s behind") {
		t.Errorf("got %q", got)
	}
	r.expect(later())
}

// A watermark of a time that is still to come, after a clock that was ahead, does not hide that
// indexing has stopped.
func TestLagAfterAClockWasAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		stopped := r.rule("on: lag, behind: 1m")
		r.watermark(time.Now().Add(time.Hour).UnixMicro())
		r.expect(stopped())
		r.waiting = map[string]int{"watership.index": 12}
		r.expect(stopped())
		time.Sleep(2 * time.Minute)
		if found := stopped(); len(found) != 1 || !strings.Contains(found[0], "behind") {
			t.Errorf("found %q", found)
		}
		r.watermark(time.Now().Add(time.Hour + time.Minute).UnixMicro())
		r.expect(stopped())
	})
}

func TestGap(t *testing.T) {
	r := newRig(t)
	gap := r.rule("on: gap, within: 10m")
	r.expect(gap())
	dropped := func(e *schemas.Event) {
		e.Time, e.Failure = time.Now().Add(-time.Hour), schemas.Failure{Type: "gap", Message: "about 12 messages are not recorded"}
	}
	r.event(schemas.Dropped, "watership.index", "", "", dropped, func(e *schemas.Event) { e.Sequence -= (11 * time.Minute).Microseconds() })
	r.expect(gap())
	r.event(schemas.Dropped, "watership.index", "", "", dropped)
	r.expect(gap(), "a gap in the record: about 12 messages are not recorded")
	r.system.Topology.IndexLimit = 100
	r.waiting = map[string]int{r.system.Topology.IndexLate(): 100}
	now := r.rule("on: gap, within: 10m")
	r.expect(now(), "a gap in the record: about 12 messages are not recorded", "copies of messages are being dropped, so that the record gets a gap")
}

// A receiver without requests for long may be gone for good, and its alert ends with that reason.
func TestReceiverThatIsGone(t *testing.T) {
	r := newRig(t)
	for name, age := range map[string]time.Duration{"gone.example": 8 * 24 * time.Hour, "down.example": 24 * time.Hour} {
		r.event(schemas.Poisoned, "hooks", name, "refused", func(e *schemas.Event) {
			e.Receiver, e.Duration, e.Time = name, time.Millisecond, e.Time.Add(-age)
			e.Sequence = e.Time.UnixMicro()
		})
	}
	r.memory = json.RawMessage(`{"sequence": 1, "broken": [{"queue": "hooks", "receiver": "gone.example"}, {"queue": "hooks", "receiver": "down.example"}]}`)
	evaluate := r.rule("on: receiver, within: 10m")
	for _, muted := range []string{"since no request to it was recorded in 7d", ""} {
		if r.expect(evaluate(), "no request to receiver down.example of queue hooks succeeds: "); r.muted != muted {
			t.Errorf("muted %q, want %q", r.muted, muted)
		}
	}
}

// A condition that configurations have and no rule evaluates is refused.
func TestUnknownCondition(t *testing.T) {
	t.Parallel()
	rules, err := rule.New(config.Alerts{Rules: []config.AlertRule{{Name: "r", On: "late"}}}, rule.System{}, kql.Parse)
	if want := `rule r: no condition of alerts is named "late"`; err == nil || err.Error() != want {
		t.Errorf("%d rules, %v, want %s", len(rules), err, want)
	}
}

// A receiver is an alert once, while requests to it fail and none succeeds, and until one does.
func TestReceiver(t *testing.T) {
	r := newRig(t)
	to := func(receiver string, age time.Duration) func(*schemas.Event) {
		return func(e *schemas.Event) {
			e.Receiver, e.Duration, e.Time = receiver, time.Millisecond, e.Time.Add(-age)
			if age > 0 {
				e.Sequence = e.Time.UnixMicro()
			}
		}
	}
	waits := func(e *schemas.Event) { e.Receiver = "waits.example" }
	r.event(schemas.Handled, "hooks", "a", "", to("down.example", time.Hour))
	r.event(schemas.Poisoned, "hooks", "b", "refused", to("down.example", 0))
	r.event(schemas.RetryScheduled, "hooks", "c", "refused", to("down.example", 0))
	r.event(schemas.RetryScheduled, "hooks", "d", "refused", to("flaps.example", 0))
	r.event(schemas.Handled, "hooks", "e", "", to("flaps.example", 0))
	r.event(schemas.RetryScheduled, "hooks", "f", "refused", waits)
	r.event(schemas.Poisoned, "hooks", "g", "refused", to("old.example", time.Hour))
	evaluate := r.rule("on: receiver, within: 10m")
	want := func(when string, want ...string) {
		t.Helper()
		if got := evaluate(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	const down = "no request to receiver down.example of queue hooks succeeds: refused"
	want("it is down", down)
	r.event(schemas.Poisoned, "hooks", "c", "refused", to("down.example", 0))
	r.event(schemas.Handled, "orders", "h", "", to("down.example", 0)) // another route
	want("it is still down", down)
	r.event(schemas.Handled, "hooks", "i", "", to("down.example", 0))
	want("a request succeeds")
	r.event(schemas.Poisoned, "hooks", "j", "refused", to("down.example", 0))
	want("one fails, and another has succeeded lately")
}
