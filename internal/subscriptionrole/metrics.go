package subscriptionrole

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/watershipmq/watership/subscription"
)

// Metrics are the metrics of the subscriptions that the process runs, and the number of all
// by their state.
type Metrics struct {
	Subscriptions *subscription.Subscriptions
	Timeout       time.Duration // for the store
}

const namespace = "watership_subscription_"

// Describe implements prometheus.Collector. The collector is unchecked.
func (m Metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m Metrics) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), m.Timeout)
	defer cancel()
	send := func(name, help string, kind prometheus.ValueType, value float64, values ...string) {
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc(namespace+name, help, []string{"subscription"}, nil), kind, value, values...)
	}
	for _, sub := range m.Subscriptions.Running() {
		waiting := 0.0
		if sub.Checkpoint.Waiting != "" {
			waiting = 1
		}
		send("lag_seconds", "Age of the events that the subscription has not delivered yet; 0 if it has caught up.", prometheus.GaugeValue, sub.Lag(time.Now()).Seconds(), sub.Name)
		send("waiting", "1 while the target cannot take events.", prometheus.GaugeValue, waiting, sub.Name)
		send("delivered_total", "Events delivered since the subscription was created.", prometheus.CounterValue, float64(sub.Checkpoint.Delivered), sub.Name)
		send("parked_total", "Events parked since the subscription was created.", prometheus.CounterValue, float64(sub.Checkpoint.Parked), sub.Name)
		if missing, err := m.Subscriptions.Missing(ctx, sub); err == nil {
			send("lag_events", "Matching events that the subscription has not delivered yet.", prometheus.GaugeValue, float64(missing), sub.Name)
		}
	}
	states := map[subscription.State]int{subscription.Active: 0, subscription.Paused: 0, subscription.Stopped: 0}
	for _, sub := range m.Subscriptions.Known() {
		states[sub.State]++
	}
	desc := prometheus.NewDesc("watership_subscriptions", "Number of subscriptions by state.", []string{"state"}, nil)
	for state, n := range states {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), string(state))
	}
}
