package shop_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/internal/cli/shop"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operate/waiting"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// truth counts what the shop does, by the ends of ways.
type truth struct {
	mu     sync.Mutex
	counts map[string]int64
}

func (tr *truth) add(way string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.counts[way]++
}

// watch returns the routes of the shop with handlers that are counted.
func (tr *truth) watch(routes []pipeline.Route) []pipeline.Route {
	for i := range routes {
		handle, queue := routes[i].Handler, routes[i].Queue
		routes[i].Handler = func(msg *message.Message) ([]*message.Message, error) {
			produced, err := handle(msg)
			if err != nil {
				tr.add(queue + " failed")
				return produced, err
			}
			e, _ := schemas.FromContext(msg.Context())
			tr.add(e.Exchange + " > " + queue)
			tr.add(queue + " handled")
			for range produced {
				tr.add(map[string]string{shop.Billing: "billing > " + shop.Payments, shop.Warehouse: "warehouse > " + shop.Shipments}[queue])
			}
			return produced, err
		}
	}
	return routes
}

// The map of services that is found in the record is what the shop does: the same ways, with the same numbers of
// messages and failures.
func TestMapOfTheShop(t *testing.T) {
	environ := []string{
		"WATERSHIP_AMQP_URL=" + config.Embedded, "WATERSHIP_AMQP_LISTEN=127.0.0.1:0", "WATERSHIP_HTTP_LISTEN=127.0.0.1:0",
		"WATERSHIP_STORE_URL=sqlite:" + filepath.Join(t.TempDir(), "store.db"), "WATERSHIP_DATA=" + t.TempDir(),
	}
	cfg, err := config.Load(config.Sources{Environ: environ})
	if err != nil {
		t.Fatal(err)
	}
	sys, err := system.Start(t.Context(), system.Config{Settings: cfg, Name: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	example, did := shop.New(shop.Config{Seed: 3, Rate: 100, First: 1}), truth{counts: map[string]int64{}}
	made, err := server.New(t.Context(), sys, server.Config{
		Reload: func() (config.Config, error) { return config.Load(config.Sources{Environ: environ}) },
		Taps:   example.Taps(), Routes: did.watch(example.Routes()),
	})
	if err != nil {
		t.Fatal(err)
	}
	api := httpapi.New(sys, made)
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- made.Run(ctx, server.Faces{API: api, Run: func(ctx context.Context) error {
			for made.Ready(ctx) != nil && ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
			}
			close(ready)
			<-ctx.Done()
			return nil
		}})
	}()
	defer func() {
		stop()
		if err := errors.Join(<-ended, sys.Close()); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	publisher, err := sys.Publisher(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const messagesToSend = 150
	open, closeShop := context.WithCancel(t.Context())
	sent := 0
	err = example.Open(open, func(ctx context.Context, m rabbit.Message) (func(context.Context) error, error) {
		if sent++; sent > messagesToSend {
			closeShop()
			return func(context.Context) error { return nil }, nil
		}
		did.add("shop > " + m.Exchange)
		return func(context.Context) error { return nil }, publisher.Publish(ctx, m)
	})
	closeShop()
	if err != nil {
		t.Fatal(err)
	}
	as := access.NewContext(t.Context(), access.AsOperator("test"))
	var last messages.ServiceMap
	found := func() map[string]int64 {
		got, err := messages.GetServiceMap.Call(as, api, messages.MapInput{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		last = got.Body
		return countsOf(last)
	}
	waits := func() bool {
		got, err := waiting.ListWaiting.Call(as, api, waiting.PageInput{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		return len(got.Body.Messages) > 0
	}
	diff := ""
	if !rabbittest.Poll(2*time.Minute, func() bool {
		if waits() { // a message that will be tried again would be counted later
			return false
		}
		did.mu.Lock()
		defer did.mu.Unlock()
		diff = cmp.Diff(did.counts, found())
		return diff == ""
	}) {
		t.Fatalf("(-what the shop did +the map):\n%s", diff)
	}
	for _, e := range last.Edges {
		in := messages.CountInput{QueryFilter: eventfilter.QueryFilter{Filter: eventfilter.Filter{Query: e.Query}}}
		events, err := messages.CountEvents.Call(as, api, in)
		if err != nil {
			t.Fatal(err)
		}
		if want := e.Messages + map[string]int64{messages.MapServices: e.Failed}[e.To.Kind]; events.Body.Count != want {
			t.Errorf("%s finds %d events, want %d", e.Query, events.Body.Count, want)
		}
		if e.To.Kind == messages.MapServices && e.Messages > 0 && e.P95 == 0 {
			t.Errorf("the attempts of %s have no times", e.From.Name)
		}
	}
	did.wantEffects(as, t, api)
	services := map[string]string{shop.Billing: "billing", shop.Changes: "", shop.Warehouse: "warehouse", shop.Carrier: "", shop.Mail: ""}
	if diff := cmp.Diff(services, servicesOf(last)); diff != "" || last.OmittedEdges != 0 || last.OmittedEvents != 0 {
		t.Errorf("(-services of the shop +of the map), %d and %d left out:\n%s", last.OmittedEdges, last.OmittedEvents, diff)
	}
}

// wantEffects replays payments, and checks that a plan has said what that causes; of orders it says what they caused.
func (tr *truth) wantEffects(ctx context.Context, t *testing.T, api *httpapi.API) {
	t.Helper()
	plan := func(key string) replays.PlanOutput {
		r := replays.Replay{Target: replays.Target{Kind: string(replayer.ToOrigin)}, Again: true, Limit: 20, UncheckedRoutes: true}
		r.Query = "action: handled and routing_key: " + key
		planned, err := replays.PlanReplay.Call(ctx, api, replays.PlanInput{Body: r})
		if err != nil || planned.Body.Effects == nil {
			t.Fatalf("%+v, %v", planned.Body, err)
		}
		return planned
	}
	orders := effectsOf(*plan("order.placed").Body.Effects)
	want := map[string]int64{
		"> " + shop.Payments: 20, "> " + shop.Shipments: 20, shop.Billing + " handled": 20, shop.Warehouse + " handled": 20, shop.Carrier + " handled": 20, shop.Mail + " handled": 20,
	}
	if diff := cmp.Diff(want, orders); diff != "" {
		t.Errorf("orders (-want +planned):\n%s", diff)
	}

	payments := plan("payment.taken")
	tr.mu.Lock()
	before := maps.Clone(tr.counts)
	tr.mu.Unlock()
	r := replays.Replay{Target: replays.Target{Kind: string(replayer.ToOrigin)}, Again: true, Limit: 20, UncheckedRoutes: true}
	r.Query = "action: handled and routing_key: payment.taken"
	if _, err := replays.StartReplay.Call(ctx, api, payments.Start("payments", r)); err != nil {
		t.Fatal(err)
	}
	planned, diff := effectsOf(*payments.Body.Effects), ""
	if !rabbittest.Poll(time.Minute, func() bool {
		happened := map[string]int64{}
		tr.mu.Lock()
		defer tr.mu.Unlock()
		for way, n := range tr.counts {
			if _, to, isPublished := strings.Cut(way, " > "); n > before[way] && strings.HasSuffix(way, " handled") {
				happened[way] += n - before[way]
			} else if n > before[way] && isPublished && strings.HasPrefix(way, "warehouse") {
				happened["> "+to] += n - before[way]
			}
		}
		diff = cmp.Diff(happened, planned)
		return diff == ""
	}) {
		t.Errorf("payments (-what happened +planned):\n%s", diff)
	}
	if silent := payments.Body.Effects.Silent; !slices.Equal(silent, []string{shop.Carrier, shop.Mail}) {
		t.Errorf("no message is known to be caused at %q", silent)
	}
}

// effectsOf returns the effects that a plan expects, in the words of truth without the publishers.
func effectsOf(effects replays.Effects) map[string]int64 {
	expected := map[string]int64{}
	for _, e := range effects.Published {
		expected["> "+e.Exchange] += int64(e.Expected)
	}
	for _, e := range effects.Queues {
		expected[e.Queue+" handled"] += int64(e.Expected)
	}
	return expected
}

// countsOf returns the numbers of a map in the words of truth, and of services only those that it knows.
func countsOf(m messages.ServiceMap) map[string]int64 {
	counts := map[string]int64{}
	add := func(way string, n int64) {
		if n > 0 {
			counts[way] += n
		}
	}
	for _, e := range m.Edges {
		switch e.To.Kind {
		case messages.MapServices:
			add(e.From.Name+" handled", e.Messages)
			add(e.From.Name+" failed", e.Failed)
		case messages.MapQueues:
			add(e.From.Name+" > "+e.To.Name, e.Messages-e.Failed) // without poison
		default:
			add(e.From.Name+" > "+e.To.Name, e.Messages)
		}
	}
	return counts
}

// servicesOf returns the services of queues.
func servicesOf(m messages.ServiceMap) map[string]string {
	services := map[string]string{}
	for _, e := range m.Edges {
		if e.To.Kind == messages.MapServices {
			services[e.From.Name] = e.To.Name
		}
	}
	return services
}
