package server

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/schemas"
)

// A process of the former prefix that starts while setup runs loses nothing.
func TestRetiringAPrefixThatIsUsedAgain(t *testing.T) {
	t.Parallel() // most of it is waiting
	sys, broker := systemtest.Embedded(t, "WATERSHIP_TOPOLOGY_PREFIX=now")
	former := schemas.Topology{Prefix: "former"}
	if err := pipeline.Declare(t.Context(), pipeline.Config{Connection: rabbitmq.Connection{URL: sys.ServerURL()}, Topology: former}); err != nil {
		t.Fatal(err)
	}
	channel := broker.Channel(t)
	err := Setup{Retire: "former"}.Run(t.Context(), sys, func(subject, _ string) {
		if subject != "templates" {
			return
		}
		if _, err := channel.Consume(former.Due(), "", false, false, false, false, nil); err != nil {
			t.Error(err)
		}
	})
	var input system.InputError
	if !errors.As(err, &input) || !strings.Contains(err.Error(), former.Due()+" has a consumer: stop the processes") {
		t.Errorf("got %v", err)
	}
	for _, queue := range former.Queues() {
		if _, err := broker.Channel(t).QueueDeclarePassive(queue, true, false, false, false, amqp.Table{}); err != nil {
			t.Error(err)
		}
	}
}

// The lists of another broker do not decide what setup deletes. Serve records without them.
func TestTheManagementAPIOfAnotherBroker(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := `[{"name":"watership.index.1000","type":"quorum"}]`
		if strings.HasSuffix(r.URL.Path, "/overview") {
			answer = `{"cluster_name":"other","rabbitmq_version":"4.3.6"}`
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(other.Close)
	broker := rabbittest.Embedded(t)
	sys := systemtest.New(t, "WATERSHIP_AMQP_URL="+broker.URL, "WATERSHIP_AMQP_MANAGEMENT_URL="+strings.Replace(other.URL, "http://", "http://guest:guest@", 1),
		"WATERSHIP_SOURCE=test", "WATERSHIP_STORE_URL=sqlite:"+t.TempDir()+"/store.db")
	err := Setup{}.Run(t.Context(), sys, func(string, string) {})
	var input system.InputError
	if !errors.As(err, &input) || !strings.Contains(err.Error(), "amqp.management_url: the management API belongs to cluster other") ||
		!strings.Contains(err.Error(), ": set it to the API of the broker of amqp.url") {
		t.Errorf("got %v", err)
	}
	if _, err := broker.Channel(t).QueueDeclarePassive(sys.Topology().Index(), true, false, false, false, nil); err == nil {
		t.Error("a refused setup declared the topology")
	}
	s, err := New(t.Context(), sys, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.checkFormerQueues(t.Context()); err != nil {
		t.Errorf("serve: %v", err)
	}
}

// Copies that were dropped while no process ran are a gap, although setup empties the queues.
func TestSetupRecordsWhatFormerQueuesDropped(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		g := newDropping(t, b.VHost(t), "WATERSHIP_TAP_LIMIT=5")
		sys := g.system(t, "WATERSHIP_TAP_LIMIT=9")
		if err := (Setup{}).Run(t.Context(), sys, func(string, string) {}); err != nil {
			t.Fatal(err)
		}
		g.wantGap(t, sys)
	})
}

func TestSetupRecordsWhatARetiredPrefixDropped(t *testing.T) {
	g := newDropping(t, rabbittest.Embedded(t), "WATERSHIP_TAP_LIMIT=5", "WATERSHIP_TOPOLOGY_PREFIX=former")
	sys := g.system(t, "WATERSHIP_TAP_LIMIT=5")
	if err := (Setup{Retire: "former"}).Run(t.Context(), sys, func(string, string) {}); err != nil {
		t.Fatal(err)
	}
	g.wantGap(t, sys)
}

// dropping is a broker whose queues of copies have dropped some, and a store.
type dropping struct {
	rabbittest.Broker
	store  string
	former schemas.Topology
}

func newDropping(t *testing.T, b rabbittest.Broker, environ ...string) dropping {
	t.Helper()
	g := dropping{Broker: b, store: "sqlite:" + t.TempDir() + "/store.db"}
	sys := g.system(t, environ...)
	g.former = sys.Topology()
	if err := (Setup{}).Run(t.Context(), sys, func(string, string) {}); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		b.Publish(t, g.former.Index(), amqp.Publishing{Body: []byte("copy")})
	}
	rabbittest.Eventually(t, "the queues to be full", func() bool { return b.Len(t, g.former.Index()) == 5 && b.Len(t, g.former.IndexLate()) == 5 })
	return g
}

// system returns a System with settings, which drops copies.
func (g dropping) system(t *testing.T, environ ...string) *system.System {
	t.Helper()
	return systemtest.New(t, append([]string{
		"WATERSHIP_AMQP_URL=" + g.URL, "WATERSHIP_AMQP_MANAGEMENT_URL=" + g.ManagementURL,
		"WATERSHIP_SOURCE=test", "WATERSHIP_STORE_URL=" + g.store, "WATERSHIP_TAP_WHEN_FULL=drop_oldest",
	}, environ...)...)
}

// wantGap wants the event of a gap in the log of a System.
func (g dropping) wantGap(t *testing.T, sys *system.System) {
	t.Helper()
	n := g.Len(t, sys.Topology().Log())
	for _, d := range g.Take(t, sys.Topology().Log(), n) {
		if d.RoutingKey != string(schemas.Dropped) {
			continue
		}
		_, state, err := wire.Unwrap(schemas.FromDelivery(d))
		if err != nil || state.Failure.Type != "gap" || state.Queue != g.former.Index() || !strings.Contains(state.Failure.Message, "while no process recorded them") ||
			!strings.Contains(state.Failure.Message, "more than tap.limit (5) waited") {
			t.Errorf("%+v, %v", state, err)
		}
		return
	}
	t.Errorf("no gap in %d events", n)
}
