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
	"testing"

	"github.com/watershipmq/watership/internal/operate/subscriptions"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// A subscription is created, shown, paused and deleted, directly and through the API.
func TestSubscriptionCommands(t *testing.T) {
	t.Parallel()
	w := newWithServe(t)
	operator, viewer := w.token(t, "ann", access.Operator, true), w.token(t, "vic", access.Viewer, true)
	order := writeFile(t, "order.json", `{"order": 1}`)
	for n, environ := range [][]string{nil, operator} {
		queue := w.broker.Queue(t, nil)
		run := func(want int, args ...string) result {
			t.Helper()
			got := w.through(t, environ, args...)
			if got.code != want {
				t.Fatalf("%v: %+v", args, got)
			}
			return got
		}
		name := fmt.Sprintf("billing-%d", n)
		if got := run(exitOK, "subscribe", name, "destination.name: "+w.exchange, "--from", "now", "--to-queue", queue); got.out != "subscription "+name+" delivers to queue "+queue+" while watership serve runs\n" {
			t.Errorf("%q", got.out)
		}
		run(exitOK, "publish", "--exchange", w.exchange, "--key", "order.created", "--message-id", name, order)
		d := w.broker.Take(t, queue, 1)[0]
		if d.MessageId != name || d.Headers["watership-subscription"] != name || d.RoutingKey != "order.created" {
			t.Errorf("%s with %v", d.MessageId, d.Headers)
		}
		var shown subscriptions.Subscription
		rabbittest.Eventually(t, "it has caught up", func() bool {
			if err := json.Unmarshal([]byte(run(exitOK, "subscriptions", "show", name, "-o", "json").out), &shown); err != nil {
				t.Fatal(err)
			}
			return shown.CaughtUp && shown.Delivered == 1
		})
		if shown.State != "active" || *shown.LagEvents != 0 || shown.Target.Queue != queue {
			t.Errorf("%+v", shown)
		}
		run(exitOK, "subscriptions", "pause", name, "--reason", "a deploy")
		if got := run(exitOK, "subscriptions", "list"); !strings.Contains(got.out, "paused") || !strings.Contains(got.out, "a deploy") {
			t.Errorf("%s", got.out)
		}
		run(exitOK, "subscriptions", "rewind", name, "start")
		run(exitOK, "subscriptions", "resume", name)
		w.broker.Take(t, queue, n+1)
		if got := run(exitOK, "subscriptions", "parked", name); got.out != "nothing is parked\n" {
			t.Errorf("%q", got.out)
		}
		if got := run(exitUsage, "subscriptions", "rewind", name, "yesterday"); !strings.Contains(got.err, "expected start, now, a position") {
			t.Errorf("%+v", got)
		}
	}
	wantRun(t, w.run(t, "doctor"), exitOK, "subscriptions  2 subscriptions without a problem")
	wantRun(t, w.run(t, "subscribe", "gone", "action: published", "--from", "start", "--to-queue", w.prefix+"-gone"), exitOK)
	until(t, "doctor says that it delivers nothing", func() bool {
		text := w.run(t, "doctor").out
		return strings.Contains(text, "subscription gone delivers nothing: ") && strings.Contains(text, "watership subscriptions pause gone")
	})
	wantRun(t, w.run(t, "subscriptions", "delete", "gone"), exitOK)
	direct, through := w.through(t, nil, "subscriptions", "list", "-o", "ndjson"), w.through(t, viewer, "subscriptions", "list", "-o", "ndjson")
	lags := regexp.MustCompile(`"(lag_seconds|position|checkpoint|caught_up)":[^,}]*`) // change all the time
	if lags.ReplaceAllString(direct.out, "") != lags.ReplaceAllString(through.out, "") || strings.Count(direct.out, "\n") != 2 {
		t.Errorf("%s and\n%s", direct.out, through.out)
	}
	for _, args := range [][]string{{"subscriptions", "delete", "billing-0"}, {"subscribe", "mine", "--to-queue", "q"}} {
		if got := w.through(t, viewer, args...); got.code == exitOK {
			t.Errorf("a viewer may %v", args)
		}
	}
	if got := w.through(t, operator, "subscribe", "mine", "--to-url", "https://a.example.com/"); got.code == exitOK || !strings.Contains(got.err, "admin") {
		t.Errorf("an operator may subscribe a URL: %+v", got)
	}
	for n, environ := range [][]string{nil, operator} {
		name := fmt.Sprintf("billing-%d", n)
		if got := w.through(t, environ, "subscriptions", "delete", name); got.code != exitOK || got.out != "subscription "+name+" is deleted\n" {
			t.Errorf("%+v", got)
		}
	}
	if got := w.through(t, operator, "subscriptions", "show", "billing-0"); got.code == exitOK || !strings.Contains(got.err, "no subscription billing-0") {
		t.Errorf("%+v", got)
	}
}

// A URL gets events in order; one that it refuses is parked, and delivered again on request.
func TestSubscriptionToAURL(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	refuse := "2"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
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
	service := newService(t, func(post, int) int { return http.StatusOK })
	i := installEmbedded(t, service.url)
	i.environ = append(i.environ, "WATERSHIP_SUBSCRIPTIONS_PRIVATE_NETWORKS=127.0.0.0/8")
	i.serve(t)
	if r := i.run(t, "subscribe", "hooks", "--to-url", server.URL); r.code != exitOK {
		t.Fatalf("%+v", r)
	}
	for n := 1; n <= 3; n++ {
		if r := i.run(t, "publish", "--exchange", i.exchange, "--key", "order.created", writeFile(t, "m", fmt.Sprint(n))); r.code != exitOK {
			t.Fatalf("%+v", r)
		}
	}
	rabbittest.Eventually(t, "two are delivered", func() bool { return received() == "1 hooks,3 hooks" })
	rabbittest.Eventually(t, "one is parked", func() bool {
		return strings.Contains(i.run(t, "subscriptions", "parked", "hooks").out, "422")
	})
	mu.Lock()
	refuse = ""
	mu.Unlock()
	if r := i.run(t, "subscriptions", "parked", "hooks", "--retry"); r.out != "1 message will be delivered again\n" {
		t.Errorf("%+v", r)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(received())
		}
	})
	rabbittest.Eventually(t, "it is delivered", func() bool { return received() == "1 hooks,3 hooks,2 hooks" })
}

// replay --follow sends history and then each new message, until it is stopped.
func TestReplayFollow(t *testing.T) {
	t.Parallel()
	service := newService(t, func(post, int) int { return http.StatusOK })
	i := installEmbedded(t, service.url)
	i.serve(t)
	queue := i.broker.Queue(t, nil)
	publish := func(body string) {
		t.Helper()
		i.must(t, "publish", "--exchange", i.exchange, "--key", "order.created", writeFile(t, "m", body))
	}
	publish("1")
	i.eventually(t, "action: published", 1)
	cmd := exec.Command(i.binary, "replay", "destination.name: "+i.exchange, "--to-queue", queue, "--follow", "--yes", "--config", i.config)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := i.broker.Take(t, queue, 1)[0]
	publish("2")
	second := i.broker.Take(t, queue, 1)[0]
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
		if r := i.run(t, append([]string{"replay", "*", "--follow", "--yes"}, args...)...); r.code != exitUsage || !strings.Contains(r.err, text) {
			t.Errorf("%v: %+v", args, r)
		}
	}
}
