package replayer

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/replayer/internal/planbroker"
	"github.com/watershipmq/watership/schemas"
)

// TestPlanChecksRoutes: a plan counts messages that would reach no queue other than
// Watership's, by the management API at a URL, and reads the log.
func TestPlanChecksRoutes(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		f := newFixtureOn(t, b)
		f.storePublished(3)
		if err := f.channel.QueueUnbind(f.queue, "#", f.exchange, nil); err != nil {
			t.Fatal(err)
		}
		f.bind(f.cfg.Topology.Index(), f.exchange, "#", nil)
		checks := f.config(f.cfg.Topology, b.URL)
		checks.UncheckedRoutes, checks.ManagementURL = false, b.ManagementURL
		for _, want := range []int{3, 0} {
			if want == 0 {
				f.bind(f.queue, f.exchange, "order.*", nil)
			}
			plan, err := New(checks).Plan(t.Context(), f.job(""))
			if err != nil {
				t.Fatal(err)
			}
			if plan.Matched != 3 || plan.Unroutable() != want || plan.Routes[0].Unchecked || plan.Log.Unknown {
				t.Errorf("%d to send, %d to no queue, want %d; %+v", plan.Matched, plan.Unroutable(), want, plan.Log)
			}
		}
	})
}

// TestPlanWithoutAManagementAPI: a plan fails if nothing tells whether messages are
// routable, unless they go to a queue, and its error has no password.
func TestPlanWithoutAManagementAPI(t *testing.T) {
	f := newFixture(t)
	f.storePublished(1)
	cfg := f.config(f.cfg.Topology, f.broker.URL)
	cfg.UncheckedRoutes, cfg.ManagementURL = false, "http://guest:secret@127.0.0.1:1"
	_, err := New(cfg).Plan(t.Context(), f.job(""))
	if err == nil || !strings.Contains(err.Error(), "cannot be checked") || strings.Contains(err.Error(), "secret") {
		t.Errorf("planned with %v", err)
	}
	toQueue := f.job("")
	toQueue.Target = Target{Kind: ToQueue, Queue: f.queue}
	if plan, err := New(cfg).Plan(t.Context(), toQueue); err != nil || plan.Matched != 1 || plan.Unroutable() != 0 {
		t.Errorf("to a queue: %d to send, %d to no queue (%v)", plan.Matched, plan.Unroutable(), err)
	}
}

// partitioned is a management API that does not answer, as during a partition of the cluster.
type partitioned struct{ planbroker.RouteChecker }

func (partitioned) Routable(context.Context, schemas.Envelope) (bool, error) {
	return false, errors.New("management API: context deadline exceeded")
}

func TestPlanWithASilentManagementAPI(t *testing.T) {
	err := newRoutes(partitioned{}).add(t.Context(), Route{Exchange: "shop", RoutingKey: "k"}, schemas.Envelope{Exchange: "shop"})
	if err == nil || !strings.HasSuffix(err.Error(), "context deadline exceeded: try again") || !errors.As(err, new(*UncheckedError)) {
		t.Error(err)
	}
}
