package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// until reads a page until it has a text. The counts of a quorum queue whose leader does not answer at once are some
// seconds old.
func (s served) until(t *testing.T, path string, texts ...string) document {
	t.Helper()
	var page document
	if !rabbittest.Poll(rabbittest.Timeout, func() bool {
		page = s.get(t, path)
		words := page.words(t)
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(words, text) })
	}) {
		t.Fatalf("%s never has %q:\n%s", path, texts, page.words(t))
	}
	return page
}

// A canary goes first, its outcome is looked at, and then the rest is sent.
func TestReplayWithCanary(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.get(t, "/replays").want(t, http.StatusOK, "Nothing was replayed yet")
	s.fail(t, orders(105)...)

	plan := s.get(t, s.get(t, "/failures").link(t, "/replays/new?q=event.action"))
	plan.want(t, http.StatusOK, "Plan: 105 messages to send", "queue orders", "reaches a queue", "The first 3 of 105", "order-", "Type 105 to confirm")
	action, form := plan.form(t, "Send a canary first")
	if form.Get("target") != "failed_queue" || form.Get("canary") != "10" {
		t.Errorf("%v", form)
	}
	form.Set("canary", "2")
	form.Set("reason", "the table is back")
	job := s.post(t, action, form)
	path := job.Request.URL.Path
	if again := s.post(t, action, form); again.Request.URL.Path != path {
		t.Errorf("a repeated form started %s, the first %s", again.Request.URL.Path, path)
	}
	waiting := s.until(t, path, "2 handled")
	waiting.want(t, http.StatusOK, "paused", "2 of 105 messages sent", "Outcome of the canary", "0 failed", "0 pending", "103 messages left", "the table is back", "the queue that failed", "reply_to removed")
	if refresh := waiting.values(t, "data-refresh"); len(refresh) != 0 {
		t.Errorf("a page with nothing to wait for is refreshed: %q", refresh)
	}

	action, form = waiting.form(t, "Send some more first")
	form.Set("canary", "0")
	s.post(t, action, form).want(t, http.StatusUnprocessableEntity, "expected a number of messages")
	form.Set("canary", "1")
	s.post(t, action, form)
	s.until(t, path, "102 messages left")

	action, form = s.get(t, path).form(t, "Send the rest (102)")
	s.post(t, action, form).want(t, http.StatusUnprocessableEntity, "Type 102 to confirm.")
	form.Set("count", "103")
	form.Set("expect", "103")
	s.post(t, action, form).want(t, http.StatusConflict, "102 messages match, 103 expected: nothing was changed")
	form.Set("count", "102")
	form.Set("expect", "102")
	s.post(t, action, form)
	done := s.until(t, path, "105 handled", "done", "105 of 105 messages sent")
	done.want(t, http.StatusOK, "0 pending")
	done.without(t, "Cancel", "Send the rest")
	s.post(t, action, form).want(t, http.StatusOK, "105 of 105 messages sent") // the key has acted

	list := s.get(t, "/replays")
	list.want(t, http.StatusOK, "done", "105 of 105", "the queue that failed", "local", "the table is back")
	list.link(t, path)
	if n := s.count(t, "action: replayed"); n != 105 {
		t.Errorf("%d were replayed", n)
	}
	s.get(t, "/failures").want(t, http.StatusOK, "No unresolved failures")
	s.get(t, "/replays/new?q=action%3A+poisoned&target=failed_queue").want(t, http.StatusOK, "Nothing to send", "All events that match are left out.",
		"What is left out", "105", "“Again” sends them too")
	for _, path := range []string{"/replays/nobody", "/replays/nobody/cancel"} {
		s.get(t, path).want(t, http.StatusNotFound, `there is no job "nobody" Look for it on the page of all replays.`)
	}
}

// The links of outcomes find the messages that they count.
func TestOutcomesAreQueries(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.fail(t, orders(2)...)
	s.broken.Store(true) // the replay fails again
	plan := s.get(t, "/replays/new?q=action%3A+poisoned&target=failed_queue&since=1h")
	action, form := plan.form(t, "Send 2 messages")
	path := s.post(t, action, form).Request.URL.Path
	page := s.until(t, path, "2 failed")
	page.want(t, http.StatusOK, "Replay of 2 messages to the queue that failed", "no table for order order-1", "All events of this replay")
	s.until(t, page.link(t, "/replays/new?q="), "Plan: 2 messages to send") // those that have failed again
	for part, want := range map[string]int{"retry_scheduled": 2, "+handled": 0} {
		link, err := url.Parse(page.link(t, part))
		if err != nil {
			t.Fatal(err)
		}
		if n := s.count(t, link.Query().Get("q")); link.Path != "/messages" || n != want {
			t.Errorf("%s finds %d, want %d", link, n, want)
		}
	}
}

// A replay in steps pauses itself when a step fails, and goes on when somebody says so.
func TestReplayInSteps(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.fail(t, orders(10)...)
	s.broken.Store(true) // the replay fails again
	const query = "/replays/new?q=action%3A+poisoned&target=failed_queue&steps="
	s.get(t, query+"20+5").want(t, http.StatusUnprocessableEntity, "expected ascending numbers above 0 and up to 100")
	plan := s.get(t, query+"20%2C100&stop_if=failed+%3E+50%25")
	plan.want(t, http.StatusOK, "--ramp 20,100 --stop-if 'failed > 50%'", "Unknown: what 10 messages will cause, as none like it was handled before at queue ")
	action, form := plan.form(t, "Send 10 messages")
	path := s.post(t, action, form).Request.URL.Path
	page := s.until(t, path, "Why it stopped stopped after the first 2 messages: failed > 50%: 2 of 2 messages failed, such as: ")
	page.want(t, http.StatusOK, "paused", "2 of 10 messages sent", "in steps up to 20 %, 100 %, each judged before the next", "The job has stopped by itself", "8 messages left")
	s.broken.Store(false)
	action, form = page.form(t, "Send the rest (8)")
	s.post(t, action, form)
	s.until(t, path, "10 of 10 messages sent", "done").want(t, http.StatusOK, "Up to Sent Handled Failed Silent Judged Then 2 2 0 2 0")
}

// A queue without a consumer that reports leaves its messages pending.
func TestPendingOutcomes(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.fail(t, orders(2)...)
	s.declare(t, "repair")
	action, form := s.get(t, "/replays/new?q=action%3A+poisoned&target=queue&queue=repair").form(t, "Send 2 messages")
	page := s.until(t, s.post(t, action, form).Request.URL.Path, "2 of 2 messages sent")
	s.await(t, 2, "action: replayed")
	page = s.until(t, page.Request.URL.Path, "2 pending")
	if refresh := page.values(t, "data-refresh"); !slices.Equal(refresh, []string{"1"}) {
		t.Errorf("it is refreshed each %q seconds", refresh)
	}
	link, err := url.Parse(page.link(t, "replay.of"))
	if err != nil {
		t.Fatal(err)
	}
	if n := s.count(t, link.Query().Get("q")); n != 2 {
		t.Errorf("%s finds %d", link, n)
	}
}

func (s served) declare(t *testing.T, queue string) {
	t.Helper()
	conn, err := s.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	channel, err := conn.Channel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := channel.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
}

func TestCancelReplay(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.fail(t, orders(3)...)
	action, form := s.get(t, "/replays/new?q=action%3A+poisoned&target=failed_queue").form(t, "Send a canary first")
	form.Set("canary", "1")
	path := s.post(t, action, form).Request.URL.Path
	page := s.until(t, path, "2 messages left")
	question := s.get(t, page.link(t, "/cancel"))
	question.want(t, http.StatusOK, "Cancel this replay?", "has sent 1 of 3 messages")
	action, form = question.form(t, "Cancel the replay")
	form.Set("reason", "wrong orders")
	s.post(t, action, form).want(t, http.StatusOK, "cancelled", "by local: wrong orders")
	s.get(t, path).without(t, "Send the rest")
	resume, rest := page.form(t, "Send the rest (2)")
	s.post(t, resume, rest).want(t, http.StatusConflict, "is cancelled, which cannot be undone")
}

// A job that runs is followed until it is cancelled.
func TestRunningReplay(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.fail(t, orders(4)...)
	action, form := s.get(t, "/replays/new?q=action%3A+poisoned&target=failed_queue&rate=0.05").form(t, "Send 4 messages")
	path := s.post(t, action, form).Request.URL.Path
	page := s.until(t, path, "a second, about")
	page.want(t, http.StatusOK, "running", "Cancel…", "at most 0.05 messages a second")
	list := s.get(t, "/replays")
	list.want(t, http.StatusOK, "running")
	for _, shown := range []document{page, list} {
		if refresh := shown.values(t, "data-refresh"); !slices.Equal(refresh, []string{"1"}) {
			t.Errorf("%s is refreshed each %q seconds", shown.Request.URL, refresh)
		}
	}
	action, form = s.get(t, page.link(t, "/cancel")).form(t, "Cancel the replay")
	s.post(t, action, form)
	cancelled := s.until(t, path, "by local")
	cancelled.without(t, "4 of 4 messages sent", "Cancel…")
	if n := s.count(t, "action: replayed"); n >= 4 {
		t.Errorf("%d were replayed", n)
	}
}

// A replay is refused if its plan has changed, and shows the new one. Failures since the
// plan are not part of it.
func TestReplayOfAnotherNumber(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.fail(t, orders(3)...)
	const plan = "/replays/new?q=action%3A+poisoned&target=failed_queue"
	action, form := s.get(t, plan).form(t, "Send 3 messages")
	discard, one := s.get(t, "/failures/discard?ids=order-2").form(t, "Discard 1 failure")
	one.Set("reason", "paid by hand")
	s.post(t, discard, one)
	changed := s.post(t, action, form)
	changed.want(t, http.StatusConflict, "The number has changed: 2 messages now.", "Nothing was sent.", "Plan: 2 messages to send", "failed and discarded since (“Again” sends them too)")
	s.broken.Store(true)
	s.publish(t, "late", "{}", nil)
	s.await(t, 4, "action: poisoned")
	s.broken.Store(false)
	action, form = changed.form(t, "Send 2 messages")
	s.until(t, s.post(t, action, form).Request.URL.Path, "2 handled")
	s.get(t, "/failures").want(t, http.StatusOK, "1 failure in 1 group", "late")
}

func TestPlanWithMistakes(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.fail(t, "order-1")
	s.get(t, "/replays/new").want(t, http.StatusOK, "Give a query to see a plan", "where they came from", "Show the plan")
	s.get(t, "/replays/new?q=acton%3A+poisoned").want(t, http.StatusBadRequest, "Did you mean event.action?", "Show the plan")
	s.get(t, "/replays/new?q=*&limit=x").want(t, http.StatusUnprocessableEntity, `limit "x": expected a number`)
	s.get(t, "/replays/new?q=*&set_header=x").want(t, http.StatusBadRequest, "changes:")
	s.get(t, "/replays/new?q=*&target=queue&queue=watership.poison").want(t, http.StatusBadRequest, "one of Watership's own")
	gone := s.get(t, "/replays/new?q=action%3A+poisoned&target=queue&queue=gone")
	gone.want(t, http.StatusOK, "would reach no queue", "“Unchecked routes”", "reaches no queue")
	gone.without(t, "Send 1 message", "Send a canary")
	unknown := s.get(t, "/replays/new?ids=nobody&ids=order-1&target=failed_queue")
	unknown.want(t, http.StatusOK, "Plan: 1 message to send", "1 id names no message or event:", "nobody")
}

// A plan can be copied as a command, with what the filter and the form have.
func TestPlanAsCommand(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	page := s.get(t, "/replays/new?q=queue%3A+orders&since=1h&target=failed_queue&reason=it%27s+fixed")
	const want = `watership replay 'queue: orders' --since 1h --to-failed-queue --reason 'it'\''s fixed'`
	if got := page.values(t, "data-copy"); !slices.Equal(got, []string{want}) {
		t.Errorf("%q", got)
	}
	page.want(t, http.StatusOK, want)
}

// Jobs are on pages of 50.
func TestReplaysPages(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.fail(t, "order-1")
	for n := range 51 {
		fields := url.Values{"q": {"action: poisoned"}, "target": {"failed_queue"}, "again": {"yes"}, "expect": {"1"}, "canary": {"1"}, "reason": {fmt.Sprintf("job %d.", n)}}
		if started := s.post(t, "/replays/new", fields); !strings.HasPrefix(started.Request.URL.Path, "/replays/0") {
			t.Fatalf("%s", started.words(t))
		}
		s.until(t, "/replays", fmt.Sprintf("job %d.", n))
		s.untilNoneRuns(t)
	}
	first := s.get(t, "/replays")
	first.want(t, http.StatusOK, "job 50.", "job 1.", "Next page")
	second := s.get(t, first.link(t, "cursor="))
	second.want(t, http.StatusOK, "job 0.", "First page")
	second.without(t, "Next page", "job 1.")
}

func (s served) untilNoneRuns(t *testing.T) {
	t.Helper()
	until(t, func() bool { return len(s.get(t, "/replays").values(t, "data-refresh")) == 0 })
}

// The plan counts erased messages among those that are not sent.
func TestPlanWithErasedMessages(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	settings := []string{"WATERSHIP_REDACT_RULES=[{header: customer, as: customer, subject: true}]"}
	for name, text := range map[string]string{"HASH_KEY": strings.Repeat("0a", 32), "ORIGINAL_KEYS": "a " + strings.Repeat("0b", 32)} {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		settings = append(settings, "WATERSHIP_REDACT_"+name+"_FILE="+path)
	}
	s := newSystem(t, settings...)
	for _, customer := range []string{"C-1", "C-2"} {
		s.publish(t, "of "+customer, "{}", amqp.Table{"customer": customer})
	}
	s.await(t, 2, "action: published")
	store, err := s.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hashes := s.Redactor().Subjects("C-1")
	if _, err := store.DestroySubjectKeys(t.Context(), hashes); err != nil {
		t.Fatal(err)
	}
	s.Redactor().Forget(hashes...)
	s.get(t, "/replays/new?q=action:published&target=origin&again=yes").want(t, http.StatusOK, "Plan: 2 messages to send", "1 erased, and not sent")
}
