package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/internal/wire"
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
    timeout: 1s
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
		i := servertest.Install(t, broker, servertest.ServeHTTP(t, http.HandlerFunc(picky)))
		i.Configure(t, "timeout: 10s", "timeout: 10s, statuses: {409: handled, 4xx: retry}, max_retry_after: 100ms",
			"\nretry: {policies: {default: {delays: [100ms, 300ms]}}}\n", settingsOfRoutes)
		serving := i.Serve(t)
		publisher := i.Publisher(t)
		for _, id := range []string{"conflict", "invalid", "slow", "busy"} {
			if err := publisher.Publish(t.Context(), rabbit.Message{
				Exchange: i.Exchange, RoutingKey: "order", Publishing: amqp.Publishing{MessageId: id},
			}); err != nil {
				t.Fatal(err)
			}
		}
		i.Eventually(t, "action: handled", 3)
		wantAttempts(t, i, "conflict", nil)
		wantAttempts(t, i, "invalid", []time.Duration{40, 120, 200}) // without its setting poison at once
		wantAttempts(t, i, "slow", []time.Duration{40})
		// It waits as any that is unavailable, longer each time until another succeeds: never a day.
		if got := delaysOf(t, i, "busy", 2); got[0] != 100 || got[1] != 1000 || got[len(got)-1] > 60_000 {
			t.Errorf("delays of busy: %d ms", got)
		}
		if poisoned := i.Eventually(t, "action: poisoned", 1)[0]; poisoned.Attempt != 4 || poisoned.Envelope.Properties.MessageID != "invalid" {
			t.Errorf("poisoned %+v", poisoned)
		}
		e, state, err := wire.Unwrap(schemas.FromDelivery(broker.Take(t, i.Queue+".poison", 1)[0]))
		if err != nil || e.Properties.MessageID != "invalid" || state.Attempt != 4 {
			t.Errorf("parked %+v %+v %v", e, state, err)
		}
		checkExpired(t, i, broker)
		serving.Stop(t)
	})
}

// The end of serve waits for handlers no longer than stop_timeout, and gives their
// messages back.
func TestStopTimeout(t *testing.T) {
	broker := rabbittest.Newest(t)
	asked := make(chan struct{}, 1)
	i := servertest.Install(t, broker, servertest.ServeHTTP(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	})))
	i.Configure(t, "timeout: 10s", "timeout: 10m", "\nretry:", "\nstop_timeout: 150ms\nretry:")
	serving := i.Serve(t)
	err := i.Publisher(t).Publish(t.Context(), rabbit.Message{Exchange: i.Exchange, RoutingKey: "order"})
	if err != nil {
		t.Fatal(err)
	}
	rabbittest.Receive(t, asked)
	serving.Stop(t)
	if log := serving.Logs.String(); !strings.Contains(log, "timeout=150ms") {
		t.Error("no handler was cut off")
	}
	i.AwaitLen(t, i.Queue, 1)
}

// A service refuses connections: the route pauses, and whoever looks is told, by
// readiness, metrics, doctor, an event and the list of routes; it resumes by itself.
func TestPausedRouteIsVisible(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.EachKind(t, func(t *testing.T, broker rabbittest.Broker) {
		var refuses atomic.Bool
		refuses.Store(true)
		i := servertest.Install(t, broker, servertest.ServeHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if refuses.Load() {
				w.WriteHeader(http.StatusBadGateway)
			}
		})))
		const messages = 4 // fewer than pause a route by default
		i.Configure(t, "\nretry: {", "\n    breaker: {messages: 3}\nretry: {breaker: {cap: 1s}, ")
		i.Serve(t)
		servertest.WantRun(t, i.Run(t, "routes"), 0, i.Queue, "running")
		publisher := i.Publisher(t)
		for n := range messages {
			if err := publisher.Publish(t.Context(), rabbit.Message{
				Exchange: i.Exchange, RoutingKey: "order", Publishing: amqp.Publishing{MessageId: fmt.Sprint("m", n)},
			}); err != nil {
				t.Fatal(err)
			}
		}
		paused := i.Eventually(t, "action: paused", 1)[0]
		if paused.Queue != i.Queue || !strings.Contains(paused.Failure.Message, "502 Bad Gateway") {
			t.Errorf("%+v", paused.State)
		}
		if status, body := i.Ask(t, "/readyz"); status != http.StatusOK || !strings.HasPrefix(body, "ok\nthe route of queue "+i.Queue+" is paused since ") {
			t.Errorf("%d %s", status, body)
		}
		if got := i.Scrape(t)[`watership_route_paused{queue="`+i.Queue+`"}`]; got != 1 {
			t.Errorf("the metric is %v", got)
		}
		servertest.WantRun(t, i.Run(t, "routes"), 0, i.Queue, "paused", "502 Bad Gateway")
		elsewhere := *i // a configuration without the route
		elsewhere.Environ = append(slices.Clone(i.Environ), "WATERSHIP_ROUTES=[]")
		servertest.WantRun(t, elsewhere.Run(t, "routes"), 0, i.Queue, "paused", "502 Bad Gateway")
		var states []routes.RouteState
		if err := json.Unmarshal([]byte(i.Must(t, "routes", "-o", "json")), &states); err != nil || len(states) != 1 || states[0].State != "paused" || states[0].Since == nil {
			t.Errorf("%+v %v", states, err)
		}
		if text := i.Run(t, "doctor").Out; !strings.Contains(text, "the route of queue "+i.Queue+" is paused: ") || !strings.Contains(text, ", since ") {
			t.Error(text)
		}
		refuses.Store(false)
		i.Eventually(t, "action: handled", messages)
		i.Eventually(t, "action: resumed", 1)
		servertest.WantRun(t, i.Run(t, "routes"), 0, i.Queue, "running")
		servertest.Until(t, "the route of another process runs", func() bool { return strings.Contains(elsewhere.Run(t, "routes").Out, i.Queue+"  running") })
		if _, body := i.Ask(t, "/readyz"); body != "ok\n" {
			t.Error(body)
		}
		if text := i.Run(t, "doctor").Out; !strings.Contains(text, "no route is paused") {
			t.Error(text)
		}
		servertest.WantRun(t, i.Run(t, "replay", "action: paused", "--dry-run"), 0, "not about a message")
		if got := i.Must(t, "search", "action: paused"); !strings.Contains(got, "EXCHANGE") || strings.Contains(got, "(default)") {
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
		i := servertest.Install(t, broker, servertest.ServeHTTP(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled.Add(1) })))
		serving := i.Serve(t)
		servertest.WantRun(t, i.Run(t, "routes", "pause", "nothing", "--reason", "x"), 2, "no route has the queue nothing")
		servertest.WantRun(t, i.Run(t, "routes", "pause", i.Queue, "--drain", "--reason", "the database moves"), 0, "the route of queue "+i.Queue+" is paused\nno message is in flight\n")
		i.Eventually(t, "action: paused and error.type: operator", 1)
		servertest.WantRun(t, i.Run(t, "routes"), 0, i.Queue, "paused", "the database moves (")
		servertest.WantRun(t, i.Run(t, "doctor"), 0, "the route of queue "+i.Queue+" is paused by hand: the database moves (", ", since ", "watership routes resume "+i.Queue)
		servertest.Until(t, "serve knows", func() bool {
			_, body := i.Ask(t, "/readyz")
			return body == "ok\nthe route of queue "+i.Queue+" is paused by an operator\n"
		})
		serving.Stop(t)
		serving = i.Serve(t)
		if err := i.Publisher(t).Publish(t.Context(), rabbit.Message{Exchange: i.Exchange, RoutingKey: "order"}); err != nil {
			t.Fatal(err)
		}
		i.Eventually(t, "action: published", 1)
		servertest.WantRun(t, i.Run(t, "replay", "action: published", "--to-queue", i.Queue, "--dry-run"), 0,
			"WARNING: nothing is handled: the route of queue "+i.Queue+" is paused by hand: the database moves (", ", since ")
		if n := handled.Load(); n != 0 {
			t.Errorf("%d messages were handled", n)
		}
		servertest.WantRun(t, i.Run(t, "routes", "resume", i.Queue), 0, "is no longer paused by hand")
		i.Eventually(t, "action: handled", 1)
		servertest.WantRun(t, i.Run(t, "routes"), 0, i.Queue, "running")
		servertest.WantRun(t, i.Run(t, "doctor"), 0, "no route is paused")
		serving.Stop(t)
	})
}

// wantAttempts looks at the delays, in milliseconds, before the attempts that followed.
func wantAttempts(t *testing.T, i *servertest.Installation, id string, want []time.Duration) {
	t.Helper()
	if diff := cmp.Diff(want, delaysOf(t, i, id, len(want))); diff != "" {
		t.Errorf("delays of %s (-want +got):\n%s", id, diff)
	}
}

// delaysOf returns the delays of a message in milliseconds, the shortest first, once it has n.
func delaysOf(t *testing.T, i *servertest.Installation, id string, n int) (got []time.Duration) {
	t.Helper()
	servertest.Until(t, fmt.Sprintf("%d retries of %s", n, id), func() bool {
		got = nil
		for _, e := range i.Search(t, "action: retry_scheduled and messaging.message.id: "+id) {
			got = append(got, e.Delay/time.Millisecond)
		}
		return len(got) >= n
	})
	slices.Sort(got)
	return got
}

// checkExpired: a message that expired in a queue of somebody else's is tried
// again there, as retry.deaths says.
func checkExpired(t *testing.T, i *servertest.Installation, broker rabbittest.Broker) {
	queue := i.Prefix + "-foreign"
	if _, err := broker.Channel(t).QueueDeclare(queue, true, false, false, false, amqp.Table{
		"x-message-ttl": int32(1), "x-dead-letter-exchange": schemas.Topology{Prefix: i.Prefix}.Retry(),
	}); err != nil {
		t.Fatal(err)
	}
	servertest.Bind(t, broker, queue, i.Exchange, "foreign")
	if err := i.Publisher(t).Publish(t.Context(), rabbit.Message{
		Exchange: i.Exchange, RoutingKey: "foreign", Publishing: amqp.Publishing{MessageId: "expires"},
	}); err != nil {
		t.Fatal(err)
	}
	i.Eventually(t, "action: retry_scheduled and queue: "+queue, 3)
	i.Eventually(t, "action: poisoned and queue: "+queue, 1)
}
