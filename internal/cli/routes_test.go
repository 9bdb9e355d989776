package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/operate/routes"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/pipeline/webhook"
	"github.com/watershipmq/watership/schemas"
)

// What a configuration may say of answers is what the handler understands.
func TestEveryMeaningCanBeConfigured(t *testing.T) {
	for _, meaning := range webhook.Meanings() {
		routes := fmt.Sprintf(`WATERSHIP_ROUTES=[{queue: a, handler: {http: {url: "http://a/", statuses: {404: %s}}}}]`, meaning)
		if _, err := config.Load(config.Sources{Environ: []string{routes}}); err != nil {
			t.Error(err)
		}
	}
}

// settingsOfRoutes change what settingsOf has of routes and policies.
const settingsOfRoutes = `
    timeout: 300ms
    park: true
retry:
  policies:
    default: {first: 40ms, factor: 3, cap: 200ms, attempts: 4}
  deaths: [rejected, expired]
`

// picky answers by the message's id; what follows the first attempt at another
// message is success.
func picky(w http.ResponseWriter, r *http.Request) {
	first := r.Header.Get("Watership-Attempt") == "1"
	switch r.Header.Get("Watership-Message-Id") {
	case "conflict":
		w.WriteHeader(http.StatusConflict)
	case "invalid":
		w.WriteHeader(http.StatusUnprocessableEntity)
	case "slow":
		if first {
			<-r.Context().Done()
		}
	case "busy":
		if first {
			w.Header().Set("Retry-After", "86400")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
}

// TestRoutesAsConfigured shows the settings of a route and of its policy taking
// effect in serve.
func TestRoutesAsConfigured(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.EachKind(t, func(t *testing.T, broker rabbittest.Broker) {
		i := install(t, broker, serveHTTP(t, http.HandlerFunc(picky)))
		i.configure(t, "timeout: 10s", "timeout: 10s, statuses: {409: handled, 4xx: retry}, max_retry_after: 100ms",
			"\nretry: {policies: {default: {delays: [100ms, 300ms]}}}\n", settingsOfRoutes)
		serving := i.serve(t)
		publisher := i.publisher(t)
		for _, id := range []string{"conflict", "invalid", "slow", "busy"} {
			if err := publisher.Publish(t.Context(), rabbit.Message{
				Exchange: i.exchange, RoutingKey: "order", Publishing: amqp.Publishing{MessageId: id},
			}); err != nil {
				t.Fatal(err)
			}
		}
		i.eventually(t, "action: handled", 3)
		wantAttempts(t, i, "conflict", nil)
		wantAttempts(t, i, "invalid", []time.Duration{40, 120, 200}) // without its setting poison at once
		wantAttempts(t, i, "slow", []time.Duration{40})
		wantAttempts(t, i, "busy", []time.Duration{100, 1000}) // it waits as any that is unavailable, and then, as others succeed, by its policy: never a day
		if poisoned := i.eventually(t, "action: poisoned", 1)[0]; poisoned.Attempt != 4 || poisoned.Envelope.Properties.MessageID != "invalid" {
			t.Errorf("poisoned %+v", poisoned)
		}
		e, state, err := schemas.FromDelivery(broker.Take(t, i.queue+".poison", 1)[0]).Unwrap()
		if err != nil || e.Properties.MessageID != "invalid" || state.Attempt != 4 {
			t.Errorf("parked %+v %+v %v", e, state, err)
		}
		i.checkExpired(t, broker)
		serving.stop(t)
	})
}

// The end of serve waits for handlers no longer than stop_timeout, and gives their
// messages back.
func TestStopTimeout(t *testing.T) {
	broker := rabbittest.Newest(t)
	asked := make(chan struct{}, 1)
	i := install(t, broker, serveHTTP(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	})))
	i.configure(t, "timeout: 10s", "timeout: 10m", "\nretry:", "\nstop_timeout: 150ms\nretry:")
	serving := i.serve(t)
	err := i.publisher(t).Publish(t.Context(), rabbit.Message{Exchange: i.exchange, RoutingKey: "order"})
	if err != nil {
		t.Fatal(err)
	}
	rabbittest.Receive(t, asked)
	serving.stop(t)
	if log := serving.logs.String(); !strings.Contains(log, "timeout=150ms") {
		t.Error("no handler was cut off")
	}
	if n := broker.Len(t, i.queue); n != 1 {
		t.Errorf("%d messages went back to the queue instead of 1", n)
	}
}

// A service refuses connections: the route pauses, and whoever looks is told, by
// readiness, metrics, doctor, an event and the list of routes; it resumes by itself.
func TestPausedRouteIsVisible(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.EachKind(t, func(t *testing.T, broker rabbittest.Broker) {
		var refuses atomic.Bool
		refuses.Store(true)
		i := install(t, broker, serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if refuses.Load() {
				w.WriteHeader(http.StatusBadGateway)
			}
		})))
		const messages = 4 // fewer than pause a route by default
		i.configure(t, "\nretry: {", "\n    breaker: {messages: 3}\nretry: {breaker: {cap: 1s}, ")
		i.serve(t)
		wantRun(t, i.run(t, "routes"), 0, i.queue, "running")
		publisher := i.publisher(t)
		for n := range messages {
			if err := publisher.Publish(t.Context(), rabbit.Message{
				Exchange: i.exchange, RoutingKey: "order", Publishing: amqp.Publishing{MessageId: fmt.Sprint("m", n)},
			}); err != nil {
				t.Fatal(err)
			}
		}
		paused := i.eventually(t, "action: paused", 1)[0]
		if paused.Queue != i.queue || !strings.Contains(paused.Failure.Message, "502 Bad Gateway") {
			t.Errorf("%+v", paused.State)
		}
		if status, body := i.ask(t, "/readyz"); status != http.StatusOK || !strings.HasPrefix(body, "ok\nthe route of queue "+i.queue+" is paused since ") {
			t.Errorf("%d %s", status, body)
		}
		if got := i.scrape(t)[`watership_route_paused{queue="`+i.queue+`"}`]; got != 1 {
			t.Errorf("the metric is %v", got)
		}
		wantRun(t, i.run(t, "routes"), 0, i.queue, "paused", "502 Bad Gateway")
		elsewhere := *i // a configuration without the route
		elsewhere.environ = append(slices.Clone(i.environ), "WATERSHIP_ROUTES=[]")
		wantRun(t, elsewhere.run(t, "routes"), 0, i.queue, "paused", "502 Bad Gateway")
		var states []routes.RouteState
		if err := json.Unmarshal([]byte(i.must(t, "routes", "-o", "json")), &states); err != nil || len(states) != 1 || states[0].State != "paused" || states[0].Since == nil {
			t.Errorf("%+v %v", states, err)
		}
		if text := i.run(t, "doctor").out; !strings.Contains(text, "the route of queue "+i.queue+" is paused: ") || !strings.Contains(text, ", since ") {
			t.Error(text)
		}
		refuses.Store(false)
		i.eventually(t, "action: handled", messages)
		i.eventually(t, "action: resumed", 1)
		wantRun(t, i.run(t, "routes"), 0, i.queue, "running")
		until(t, "the route of another process runs", func() bool { return strings.Contains(elsewhere.run(t, "routes").out, i.queue+"  running") })
		if _, body := i.ask(t, "/readyz"); body != "ok\n" {
			t.Error(body)
		}
		if text := i.run(t, "doctor").out; !strings.Contains(text, "paused        no route is paused") {
			t.Error(text)
		}
		wantRun(t, i.run(t, "replay", "action: paused", "--dry-run"), 0, "not about a message")
		if got := i.must(t, "search", "action: paused"); !strings.Contains(got, "EXCHANGE") || strings.Contains(got, "(default)") {
			t.Errorf("an event of no message has an exchange:\n%s", got)
		}
	})
}

// An operator pauses a route: it handles nothing, also after serve was started again, until
// the operator resumes it.
func TestRoutePausedByHand(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.EachKind(t, func(t *testing.T, broker rabbittest.Broker) {
		var handled atomic.Int32
		i := install(t, broker, serveHTTP(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled.Add(1) })))
		serving := i.serve(t)
		wantRun(t, i.run(t, "routes", "pause", "nothing", "--reason", "x"), 2, "no route has the queue nothing")
		wantRun(t, i.run(t, "routes", "pause", i.queue, "--drain", "--reason", "the database moves"), 0, "the route of queue "+i.queue+" is paused\nno message is in flight\n")
		i.eventually(t, "action: paused and error.type: operator", 1)
		wantRun(t, i.run(t, "routes"), 0, i.queue, "paused", "the database moves (")
		wantRun(t, i.run(t, "doctor"), 0, "the route of queue "+i.queue+" is paused by hand: the database moves (", ", since ", "watership routes resume "+i.queue)
		until(t, "serve knows", func() bool {
			_, body := i.ask(t, "/readyz")
			return body == "ok\nthe route of queue "+i.queue+" is paused by an operator\n"
		})
		serving.stop(t)
		serving = i.serve(t)
		if err := i.publisher(t).Publish(t.Context(), rabbit.Message{Exchange: i.exchange, RoutingKey: "order"}); err != nil {
			t.Fatal(err)
		}
		i.eventually(t, "action: published", 1)
		wantRun(t, i.run(t, "replay", "action: published", "--to-queue", i.queue, "--dry-run"), 0,
			"WARNING: nothing is handled: the route of queue "+i.queue+" is paused by hand: the database moves (", ", since ")
		if n := handled.Load(); n != 0 {
			t.Errorf("%d messages were handled", n)
		}
		wantRun(t, i.run(t, "routes", "resume", i.queue), 0, "is no longer paused by hand")
		i.eventually(t, "action: handled", 1)
		wantRun(t, i.run(t, "routes"), 0, i.queue, "running")
		wantRun(t, i.run(t, "doctor"), 0, "no route is paused")
		serving.stop(t)
	})
}

// wantAttempts looks at the delays, in milliseconds, before the attempts that followed.
func wantAttempts(t *testing.T, i *installation, id string, want []time.Duration) {
	t.Helper()
	var got []time.Duration
	until(t, fmt.Sprintf("%d retries of %s", len(want), id), func() bool {
		got = nil
		for _, e := range i.search(t, "action: retry_scheduled and messaging.message.id: "+id) {
			got = append(got, e.Delay/time.Millisecond)
		}
		return len(got) >= len(want)
	})
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("delays of %s (-want +got):\n%s", id, diff)
	}
}

// checkExpired: a message that expired in a queue of somebody else's is tried
// again there, as retry.deaths says.
func (i *installation) checkExpired(t *testing.T, broker rabbittest.Broker) {
	queue := i.prefix + "-foreign"
	if _, err := broker.Channel(t).QueueDeclare(queue, true, false, false, false, amqp.Table{
		"x-message-ttl": int32(1), "x-dead-letter-exchange": schemas.Topology{Prefix: i.prefix}.Retry(),
	}); err != nil {
		t.Fatal(err)
	}
	bind(t, broker, queue, i.exchange, "foreign")
	if err := i.publisher(t).Publish(t.Context(), rabbit.Message{
		Exchange: i.exchange, RoutingKey: "foreign", Publishing: amqp.Publishing{MessageId: "expires"},
	}); err != nil {
		t.Fatal(err)
	}
	i.eventually(t, "action: retry_scheduled and queue: "+queue, 3)
	i.eventually(t, "action: poisoned and queue: "+queue, 1)
}

// configure replaces parts of the configuration, each by the one after it.
func (i *installation) configure(t *testing.T, pairs ...string) {
	t.Helper()
	text, err := os.ReadFile(i.config)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.NewReplacer(pairs...).Replace(string(text))
	if err := os.WriteFile(i.config, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
}
