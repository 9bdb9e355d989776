package pipeline

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/retry"
)

// A handler that hangs, one that fails, one whose service is away, and a message
// with another's state are all to be seen.
func TestMetrics(t *testing.T) {
	b := rabbittest.Newest(t)
	registry := prometheus.NewPedanticRegistry()
	hangs, fails, away := b.Queue(t, nil), b.Queue(t, nil), b.Queue(t, nil)
	let := make(chan struct{})
	var back atomic.Bool
	startSilent(t, b, func(c *Config) {
		c.Registerer = registry
		c.Routes = []Route{
			{Queue: hangs, Timeout: time.Millisecond, Handler: handler(func(*message.Message) error { <-let; return nil })},
			{Queue: fails, Policy: attemptsAfter(time.Millisecond), Handler: handler(func(*message.Message) error { return errBroken })},
			{Queue: away, Breaker: &retry.Breaker{Messages: 1, First: 10 * time.Millisecond, Cap: 20 * time.Millisecond}, Handler: handler(func(*message.Message) error {
				if back.Load() {
					return nil
				}
				return retry.Unavailable(errBroken)
			})},
		}
	})
	eventually := func(name string, want float64) {
		t.Helper()
		rabbittest.Eventually(t, name, func() bool { return gathered(t, registry)[name] == want })
	}
	publishTo(t, b, hangs, "m1")
	eventually("watership_hung_attempts_total "+hangs, 1)
	close(let)
	eventually("watership_attempts_total "+hangs+" handled", 1)
	publishTo(t, b, fails, "m2")
	eventually("watership_attempts_total "+fails+" retry", 1)
	eventually("watership_attempts_total "+fails+" poison", 1)
	eventually("watership_attempt_duration_seconds "+fails, 2)
	publishTo(t, b, away, "m3")
	eventually("watership_route_paused "+away, 1)
	back.Store(true)
	publishTo(t, b, away, "m4") // the probe
	eventually("watership_route_paused "+away, 0)
	if waits := gathered(t, registry)["watership_attempts_total "+away+" defer"]; waits < 1 {
		t.Errorf("%v attempts wait", waits)
	}
	err := b.Channel(t).Publish("", hangs, false, false, amqp.Publishing{Headers: amqp.Table{
		"watership-v": int32(1), "watership-queue": hangs, "watership-fingerprint": "v1:another", "watership-attempt": int32(1),
	}})
	if err != nil {
		t.Fatal(err)
	}
	eventually("watership_fingerprint_mismatches_total "+hangs, 1)
}

// A name in a dead letter has a label of its own only if it is a queue, so that
// publishers that write x-death headers make no metrics.
func TestMetricsNameQueuesThatExist(t *testing.T) {
	b := rabbittest.Newest(t)
	registry := prometheus.NewPedanticRegistry()
	r := startSilent(t, b, func(c *Config) {
		openRetry(t, b)(c)
		c.Registerer, c.Default = registry, attemptsAfter()
	})
	queue := b.Queue(t, amqp.Table{"x-dead-letter-exchange": r.topology.Retry()})
	publishTo(t, b, queue, "x")
	rejectOne(t, b, queue)
	for i := range 20 {
		r.publish(r.topology.Retry(), "", amqp.Publishing{Headers: amqp.Table{
			"x-death": []any{amqp.Table{"queue": fmt.Sprint("forged.", i), "reason": "rejected"}},
		}})
	}
	rabbittest.Eventually(t, "all are counted", func() bool {
		values := gathered(t, registry)
		return values["watership_attempts_total "+queue+" poison"] == 1 && values["watership_attempts_total other poison"] == 20
	})
	for name := range gathered(t, registry) {
		if strings.Contains(name, "forged") {
			t.Errorf("there is a metric %s", name)
		}
	}
}

// gathered gives counters, gauges and how much histograms have counted, by name
// and the values of their labels.
func gathered(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			values[name] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return values
}
