package routes

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system/systemtest"
)

// A policy at another broker would not apply to the queue, whose rejected messages would be lost.
func TestNoPolicyAtAnotherBroker(t *testing.T) {
	broker := rabbittest.Embedded(t)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		_, _ = w.Write([]byte(`{"cluster_name":"other","rabbitmq_version":"4.3.6"}`))
	}))
	t.Cleanup(other.Close)
	sys := systemtest.New(t, "WATERSHIP_AMQP_URL="+broker.URL, "WATERSHIP_AMQP_MANAGEMENT_URL="+strings.Replace(other.URL, "http://", "http://guest:guest@", 1))
	_, err := Policies{sys}.Plan(t.Context(), "invoices", Add)
	if err == nil || !strings.Contains(err.Error(), "the management API belongs to cluster other") {
		t.Errorf("a route at another broker: %v", err)
	}
}
