package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/watershipmq/watership/internal/operate/subscriptions"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
)

// A subscription is created, shown, paused and deleted, directly and through the API.
func TestSubscriptionCommands(t *testing.T) {
	t.Parallel()
	w := newWithServe(t)
	operator, viewer := w.token(t, "ann", access.Operator, true), w.token(t, "vic", access.Viewer, true)
	order := servertest.WriteFile(t, "order.json", `{"order": 1}`)
	for n, environ := range [][]string{nil, operator} {
		queue := w.Broker.Queue(t, nil)
		run := func(want int, args ...string) servertest.Result {
			t.Helper()
			got := w.through(t, environ, args...)
			if got.Code != want {
				t.Fatalf("%v: %+v", args, got)
			}
			return got
		}
		name := fmt.Sprintf("billing-%d", n)
		if got := run(exitOK, "subscribe", name, "destination.name: "+w.Exchange, "--from", "now", "--to-queue", queue); got.Out != "subscription "+name+" delivers to queue "+queue+" while watership serve runs\n" {
			t.Errorf("%q", got.Out)
		}
		run(exitOK, "publish", "--exchange", w.Exchange, "--key", "order.created", "--message-id", name, order)
		d := w.Broker.Take(t, queue, 1)[0]
		if d.MessageId != name || d.Headers["watership-subscription"] != name || d.RoutingKey != "order.created" {
			t.Errorf("%s with %v", d.MessageId, d.Headers)
		}
		var shown subscriptions.Subscription
		rabbittest.Eventually(t, "it has caught up", func() bool {
			if err := json.Unmarshal([]byte(run(exitOK, "subscriptions", "show", name, "-o", "json").Out), &shown); err != nil {
				t.Fatal(err)
			}
			return shown.CaughtUp && shown.Delivered == 1
		})
		if shown.State != "active" || *shown.LagEvents != 0 || shown.Target.Queue != queue {
			t.Errorf("%+v", shown)
		}
		run(exitOK, "subscriptions", "pause", name, "--reason", "a deploy")
		if got := run(exitOK, "subscriptions", "list"); !strings.Contains(got.Out, "paused") || !strings.Contains(got.Out, "a deploy") {
			t.Errorf("%s", got.Out)
		}
		run(exitOK, "subscriptions", "configure", name, "--on-poison", "stop", "--max-backlog", "5")
		if got := run(exitOK, "subscriptions", "show", name, "-o", "json"); !strings.Contains(got.Out, `"on_poison": "stop"`) || !strings.Contains(got.Out, `"max_backlog": 5`) {
			t.Errorf("%s", got.Out)
		}
		if got := run(exitUsage, "subscriptions", "configure", name); !strings.Contains(got.Err, "expected --query") {
			t.Errorf("%+v", got)
		}
		run(exitOK, "subscriptions", "rewind", name, "start")
		run(exitOK, "subscriptions", "resume", name)
		w.Broker.Take(t, queue, n+1)
		if got := run(exitOK, "subscriptions", "parked", name); got.Out != "nothing is parked\n" {
			t.Errorf("%q", got.Out)
		}
		if got := run(exitUsage, "subscriptions", "rewind", name, "yesterday"); !strings.Contains(got.Err, "expected start, now, a position") {
			t.Errorf("%+v", got)
		}
	}
	servertest.WantRun(t, w.Run(t, "doctor"), exitOK, "subscriptions  2 subscriptions without a problem")
	servertest.WantRun(t, w.Run(t, "subscribe", "gone", "action: published", "--from", "start", "--to-queue", w.Prefix+"-gone"), exitOK)
	servertest.Until(t, "doctor says that it delivers nothing", func() bool {
		text := w.Run(t, "doctor").Out
		return strings.Contains(text, "subscription gone delivers nothing: ") && strings.Contains(text, "watership subscriptions pause gone")
	})
	servertest.WantRun(t, w.Run(t, "subscriptions", "delete", "gone"), exitUsage, "there is no terminal to ask: give --yes")
	servertest.WantRun(t, w.Run(t, "subscriptions", "delete", "gone", "--dry-run"), exitOK, "subscription gone has 0 parked messages")
	servertest.WantRun(t, w.Run(t, "subscriptions", "delete", "gone", "--yes", "--reason", "a mistake"), exitOK, "subscription gone is deleted")
	servertest.Until(t, "an event has the reason", func() bool {
		return strings.Contains(w.Run(t, "search", "action: audited and event.reason: \"a mistake\"", "-o", "json").Out, "subscription gone")
	})
	direct, through := w.through(t, nil, "subscriptions", "list", "-o", "ndjson"), w.through(t, viewer, "subscriptions", "list", "-o", "ndjson")
	lags := regexp.MustCompile(`"(lag_seconds|position|checkpoint|caught_up)":[^,}]*`) // change all the time
	if lags.ReplaceAllString(direct.Out, "") != lags.ReplaceAllString(through.Out, "") || strings.Count(direct.Out, "\n") != 2 {
		t.Errorf("%s and\n%s", direct.Out, through.Out)
	}
	for _, args := range [][]string{{"subscriptions", "delete", "billing-0", "--yes"}, {"subscribe", "mine", "--to-queue", "q"}} {
		if got := w.through(t, viewer, args...); got.Code == exitOK {
			t.Errorf("a viewer may %v", args)
		}
	}
	if got := w.through(t, operator, "subscribe", "mine", "--to-url", "https://a.example.com/"); got.Code == exitOK || !strings.Contains(got.Err, "admin") {
		t.Errorf("an operator may subscribe a URL: %+v", got)
	}
	for n, environ := range [][]string{nil, operator} {
		name := fmt.Sprintf("billing-%d", n)
		if got := w.through(t, environ, "subscriptions", "delete", name, "--yes"); got.Code != exitOK || !strings.HasSuffix(got.Out, "subscription "+name+" is deleted\n") {
			t.Errorf("%+v", got)
		}
	}
	if got := w.through(t, operator, "subscriptions", "show", "billing-0"); got.Code == exitOK || !strings.Contains(got.Err, "no subscription billing-0") {
		t.Errorf("%+v", got)
	}
}

// A URL gets events in order; one that it refuses is parked, and delivered again on request.
func TestSubscriptionToAURL(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	refuse := "2"
	var besides atomic.Int32
	beside := make(chan struct{}) // closed when three requests are there
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/beside" {
			if besides.Add(1) == 3 {
				close(beside)
			}
			<-beside
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if string(body) == refuse {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		got = append(got, string(body)+" "+r.Header.Get("Watership-Subscription"))
	}))
	defer server.Close()
	received := func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(got, ",")
	}
	service := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusOK })
	i := servertest.InstallEmbedded(t, service.URL)
	i.Environ = append(i.Environ, "WATERSHIP_SUBSCRIPTIONS_PRIVATE_NETWORKS=127.0.0.0/8")
	i.Serve(t)
	if r := i.Run(t, "subscribe", "hooks", "--to-url", server.URL); r.Code != exitOK {
		t.Fatalf("%+v", r)
	}
	for n := 1; n <= 3; n++ {
		if r := i.Run(t, "publish", "--exchange", i.Exchange, "--key", "order.created", servertest.WriteFile(t, "m", fmt.Sprint(n))); r.Code != exitOK {
			t.Fatalf("%+v", r)
		}
	}
	rabbittest.Eventually(t, "two are delivered", func() bool { return received() == "1 hooks,3 hooks" })
	rabbittest.Eventually(t, "one is parked", func() bool {
		return strings.Contains(i.Run(t, "subscriptions", "parked", "hooks").Out, "422")
	})
	const parked = "1 message could not be delivered: see watership subscriptions parked hooks"
	rabbittest.Eventually(t, "the list has it as a problem", func() bool { return strings.Contains(i.Run(t, "subscriptions", "list").Out, parked) })
	rabbittest.Eventually(t, "doctor reports it", func() bool {
		text := i.Run(t, "doctor").Out
		return strings.Contains(text, "subscription hooks could not deliver 1 message: ") && strings.Contains(text, "watership subscriptions parked hooks --retry")
	})
	mu.Lock()
	refuse = ""
	mu.Unlock()
	servertest.WantRun(t, i.Run(t, "subscriptions", "parked", "hooks", "--drop"), exitUsage, "there is no terminal to ask: give --yes")
	if r := i.Run(t, "subscriptions", "parked", "hooks", "--retry"); r.Out != "1 message will be delivered again\n" {
		t.Errorf("%+v", r)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(received())
		}
	})
	rabbittest.Eventually(t, "it is delivered", func() bool { return received() == "1 hooks,3 hooks,2 hooks" })
	rabbittest.Eventually(t, "nothing is left to drop", func() bool {
		return i.Run(t, "subscriptions", "parked", "hooks", "--drop", "--yes").Out == "nothing is parked\n"
	})
	if r := i.Run(t, "subscribe", "beside", "--to-url", server.URL+"/beside", "--by", "stream", "--concurrency", "3", "--on-poison", "park-stream"); r.Code != exitOK {
		t.Fatalf("%+v", r)
	}
	rabbittest.Eventually(t, "three are delivered side by side", func() bool {
		text := i.Run(t, "subscriptions", "show", "beside").Out
		return strings.Contains(text, "delivered   3\n") && strings.Contains(text, "on poison   park-stream\n") && strings.Contains(text, "calls       by stream, 3 at a time\n")
	})
	for _, args := range [][]string{{"subscriptions", "configure", "beside"}, {"subscribe", "another", "--to-url", server.URL}} {
		if r := i.Run(t, append(args, "--by", "key")...); r.Code != exitUsage || !strings.Contains(r.Err, `by "key": expected stream or position`) {
			t.Errorf("%+v", r)
		}
	}
	if r := i.Run(t, "subscriptions", "configure", "beside", "--by", "position", "--on-poison", "park"); r.Code != exitOK {
		t.Fatalf("%+v", r)
	}
	if text := i.Run(t, "subscriptions", "show", "beside").Out; strings.Contains(text, "calls ") || !strings.Contains(text, "on poison   park\n") {
		t.Errorf("%s", text)
	}
}

// replay --follow sends history and then each new message, until it is stopped.
func TestReplayFollow(t *testing.T) {
	t.Parallel()
	service := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusOK })
	i := servertest.InstallEmbedded(t, service.URL)
	i.Serve(t)
	queue := i.Broker.Queue(t, nil)
	publish := func(body string) {
		t.Helper()
		i.Must(t, "publish", "--exchange", i.Exchange, "--key", "order.created", servertest.WriteFile(t, "m", body))
	}
	publish("1")
	i.Eventually(t, "action: published", 1)
	cmd := exec.Command(i.Binary, "replay", "destination.name: "+i.Exchange, "--to-queue", queue, "--follow", "--yes", "--config", i.Config)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := i.Broker.Take(t, queue, 1)[0]
	publish("2")
	second := i.Broker.Take(t, queue, 1)[0]
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if string(first.Body)+string(second.Body) != "12" || first.Headers["watership-subscription"] != second.Headers["watership-subscription"] || !strings.Contains(out.String(), "sent 2 messages") {
		t.Errorf("%s with %v, %s with %v: %s", first.Body, first.Headers, second.Body, second.Headers, out.String())
	}
	for text, args := range map[string][]string{
		"needs --to-queue": {"--to-failed-queue"}, "--follow and --limit cannot": {"--to-queue", queue, "--limit", "3"},
	} {
		if r := i.Run(t, append([]string{"replay", "*", "--follow", "--yes"}, args...)...); r.Code != exitUsage || !strings.Contains(r.Err, text) {
			t.Errorf("%v: %+v", args, r)
		}
	}
}
