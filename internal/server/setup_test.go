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
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/schemas"
)

// A process of the former prefix that starts while setup runs loses nothing.
func TestRetiringAPrefixThatIsUsedAgain(t *testing.T) {
	t.Parallel() // most of it is waiting
	sys, broker := systemtest.Embedded(t, "WATERSHIP_TOPOLOGY_PREFIX=now")
	former := schemas.Topology{Prefix: "former"}
	if err := pipeline.Declare(t.Context(), pipeline.Config{URL: sys.ServerURL(), Topology: former}); err != nil {
		t.Fatal(err)
	}
	channel := broker.Channel(t)
	err := Setup{Retire: "former"}.Run(t.Context(), sys, func(subject, _ string) {
		if subject != "templates" {
			return
		}
		if _, err := channel.Consume(former.Delays().Due(), "", false, false, false, false, nil); err != nil {
			t.Error(err)
		}
	})
	var input system.InputError
	if !errors.As(err, &input) || !strings.Contains(err.Error(), former.Delays().Due()+" has a consumer: stop the processes") {
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
