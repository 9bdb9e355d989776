package main

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/schemas"
)

// What a configuration may say of answers is what the handler understands.
func TestEveryMeaningCanBeConfigured(t *testing.T) {
	for _, meaning := range pipeline.Meanings() {
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
	rabbittest.Each(t, func(t *testing.T, broker rabbittest.Broker) {
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
		e, state, err := schemas.Unwrap(schemas.FromDelivery(broker.Take(t, i.queue+".poison", 1)[0]))
		if err != nil || e.Properties.MessageID != "invalid" || state.Attempt != 4 {
			t.Errorf("parked %+v %+v %v", e, state, err)
		}
		i.checkExpired(t, broker)
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
