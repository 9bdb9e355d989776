package routes

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/operation/problem"
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

// Without an answer, it is not known whether the management API is of the broker.
func TestNoPolicyAtABrokerThatIsNotKnown(t *testing.T) {
	broker := rabbittest.Embedded(t)
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/overview" {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(silent.Close)
	sys := systemtest.New(t, "WATERSHIP_AMQP_URL="+broker.URL, "WATERSHIP_AMQP_MANAGEMENT_URL="+strings.Replace(silent.URL, "http://", "http://guest:guest@", 1))
	_, err := operations{Service{System: sys}}.addRoute(as(t), policyOf("invoices", PolicyRequest{}))
	var p *problem.Problem
	if !errors.As(err, &p) || p.GetStatus() != http.StatusBadGateway || !strings.Contains(p.Detail, "login refused") || !strings.Contains(p.Remedy, "policymaker") {
		t.Errorf("%v", err)
	}
}

// A connection that fails says nothing about the login of the management API.
func TestNoPolicyWithoutAConnection(t *testing.T) {
	sys := systemtest.New(t, "WATERSHIP_AMQP_URL=amqp://127.0.0.1:1/", "WATERSHIP_AMQP_MANAGEMENT_URL=http://guest:guest@127.0.0.1:1")
	_, err := operations{Service{System: sys}}.addRoute(as(t), policyOf("invoices", PolicyRequest{}))
	if p := problem.New(t.Context(), err); p.GetStatus() != http.StatusServiceUnavailable || !strings.Contains(p.Remedy, "Wait until RabbitMQ can be reached") {
		t.Errorf("%d %s %s", p.Status, p.Detail, p.Remedy)
	}
}
