package pipeline

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/topology/pause"
	"github.com/watershipmq/watership/pipeline/webhook"
	"github.com/watershipmq/watership/schemas"
)

// A receiver that an operator holds gets nothing until it is released, and others all of theirs. Events have the
// receiver, and the answers that are kept.
func TestHeldReceiver(t *testing.T) {
	t.Parallel() // most of it is waiting
	var held atomic.Int64
	to := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Watership-Header-Key") == "held" {
			held.Add(1)
		}
		fmt.Fprint(w, "thanks")
	}))
	defer to.Close()
	b := rabbittest.Embedded(t)
	queue := rabbittest.Name(t)
	conn, err := rabbit.Open(rabbit.Config{URL: b.URL, Name: "operator", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	defer publisher.Close()
	control := pause.Control{Connection: conn, Publisher: publisher, Sign: func(m rabbit.Message) rabbit.Message { return m }}
	r := start(t, b, func(c *Config) {
		c.Routes = []Route{{Queue: queue, Concurrency: 16, Fairness: Fairness{Key: keyHeader, Concurrency: 5}, Handler: webhook.New(webhook.Config{URL: to.URL, KeepAnswers: true})}}
		control.Topology = c.Topology
		if err := Declare(t.Context(), *c); err != nil {
			t.Fatal(err)
		}
		if err := control.Hold(t.Context(), queue, "held", "it moves"); err != nil {
			t.Fatal(err)
		}
	})
	const each = 5
	for n := range each {
		r.publish("", queue, keyed("held", fmt.Sprint("h", n)))
		r.publish("", queue, keyed("free", fmt.Sprint("f", n)))
		if n == 0 { // the route asks once which receivers are held, and messages of all keys wait for the answer
			r.waitFor(1, schemas.Handled)
			r.waitFor(1, schemas.RetryScheduled)
		}
	}
	r.waitFor(each, schemas.Handled)
	for _, e := range r.waitFor(each, schemas.RetryScheduled) {
		if e.Receiver != "held" || e.Failure.Type != pause.ByOperator || e.Attempt != 0 || e.Duration != 0 {
			t.Errorf("the event of a message that waits: %+v", e.State)
		}
	}
	if n := held.Load(); n != 0 {
		t.Errorf("%d requests to the held receiver", n)
	}
	if err := control.Release(t.Context(), queue, "held", "it has moved"); err != nil {
		t.Fatal(err)
	}
	for _, e := range r.waitFor(2*each, schemas.Handled) {
		if key := keyHeader(e.Envelope); e.Receiver != key || e.Answer != "200 OK thanks" || e.Attempt != 1 {
			t.Errorf("the event of a message of %s: receiver %q, answer %q, attempt %d", key, e.Receiver, e.Answer, e.Attempt)
		}
	}
}
