package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
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

// A message that a URL refuses is parked, which commands say, and delivered again on request.
func TestSubscriptionToAURL(t *testing.T) {
	t.Parallel()
	var mended atomic.Bool
	var got atomic.Int32
	address := servertest.ServeHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !mended.Load():
			w.WriteHeader(http.StatusUnprocessableEntity)
		case r.Header.Get("Watership-Subscription") == "hooks": // others are calls of the route
			got.Add(1)
		}
	}))
	i := servertest.InstallEmbedded(t, address)
	i.Environ = append(i.Environ, "WATERSHIP_SUBSCRIPTIONS_PRIVATE_NETWORKS=127.0.0.0/8")
	i.Serve(t)
	servertest.WantRun(t, i.Run(t, "subscribe", "hooks", "action: published", "--to-url", address, "--by", "stream", "--concurrency", "3", "--on-poison", "park-stream"), exitOK)
	i.Must(t, "publish", "--exchange", i.Exchange, "--key", "order.created", servertest.WriteFile(t, "m", "1"))
	rabbittest.Eventually(t, "one is parked", func() bool {
		return strings.Contains(i.Run(t, "subscriptions", "parked", "hooks").Out, "422")
	})
	servertest.Until(t, "the list has it as a problem", func() bool {
		return strings.Contains(i.Run(t, "subscriptions", "list").Out, "1 message could not be delivered: see watership subscriptions parked hooks")
	})
	servertest.WantRun(t, i.Run(t, "subscriptions", "show", "hooks"), exitOK, "on poison   park-stream\n", "calls       by stream, 3 at a time\n")
	servertest.WantRun(t, i.Run(t, "subscriptions", "parked", "hooks", "--drop"), exitUsage, "there is no terminal to ask: give --yes")
	mended.Store(true)
	servertest.WantRun(t, i.Run(t, "subscriptions", "parked", "hooks", "--retry"), exitOK, "1 message will be delivered again\n")
	rabbittest.Eventually(t, "it is delivered", func() bool { return got.Load() > 0 })
	servertest.Until(t, "nothing is parked", func() bool { return i.Run(t, "subscriptions", "parked", "hooks").Out == "nothing is parked\n" })
	servertest.WantRun(t, i.Run(t, "subscriptions", "parked", "hooks", "--drop", "--yes"), exitOK, "nothing is parked\n")
	for _, args := range [][]string{{"subscriptions", "configure", "hooks"}, {"subscribe", "another", "--to-url", address}} {
		servertest.WantRun(t, i.Run(t, append(args, "--by", "key")...), exitUsage, `by "key": expected stream or position`)
	}
	servertest.WantRun(t, i.Run(t, "subscriptions", "configure", "hooks", "--by", "position", "--on-poison", "park"), exitOK)
	if text := i.Must(t, "subscriptions", "show", "hooks"); strings.Contains(text, "calls ") || !strings.Contains(text, "on poison   park\n") {
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
