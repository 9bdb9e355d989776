package server

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/watershipmq/watership/subscription"
)

// subscriptionMetrics are the metrics of the subscriptions that the process runs, how far all others are behind,
// and the number of all by their state.
type subscriptionMetrics struct {
	*subscription.Subscriptions
	timeout time.Duration // for the store
}

const (
	namespace   = "watership_subscription_"
	lagHelp     = "Age of the events that the subscription has not delivered yet; 0 if it has caught up."
	missingHelp = "Matching events that the subscription has not delivered yet."
)

// Describe implements prometheus.Collector. The collector is unchecked.
func (m subscriptionMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m subscriptionMetrics) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), m.timeout)
	defer cancel()
	send := func(name, help string, kind prometheus.ValueType, value float64, values ...string) {
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc(namespace+name, help, []string{"subscription"}, nil), kind, value, values...)
	}
	runs := map[string]bool{}
	for _, sub := range m.Running() {
		runs[sub.Name] = true
		waiting := 0.0
		if sub.Checkpoint.Waiting != "" {
			waiting = 1
		}
		send("lag_seconds", lagHelp, prometheus.GaugeValue, sub.Lag(time.Now()).Seconds(), sub.Name)
		send("waiting", "1 while the target cannot take events.", prometheus.GaugeValue, waiting, sub.Name)
		send("delivered_total", "Events delivered since the subscription was created.", prometheus.CounterValue, float64(sub.Checkpoint.Delivered), sub.Name)
		send("parked_total", "Events parked since the subscription was created.", prometheus.CounterValue, float64(sub.Checkpoint.Parked), sub.Name)
		if missing, err := m.Missing(ctx, sub); err == nil {
			send("lag_events", missingHelp, prometheus.GaugeValue, float64(missing), sub.Name)
		}
	}
	all, err := m.List(ctx)
	if err != nil {
		return // the runners log the problems of the store
	}
	states := map[subscription.State]int{subscription.Active: 0, subscription.Paused: 0, subscription.Stopped: 0}
	for _, sub := range all {
		states[sub.State]++
		unattended := 0.0
		if _, is := sub.Unattended(time.Now()); is {
			unattended = 1
		}
		send("unattended", "1 if no process has run the active subscription for a minute.", prometheus.GaugeValue, unattended, sub.Name)
		if runs[sub.Name] {
			continue
		}
		if progress, err := m.Progress(ctx, sub); err == nil {
			send("lag_seconds", lagHelp, prometheus.GaugeValue, progress.Lag.Seconds(), sub.Name)
		}
		if missing, err := m.Missing(ctx, sub); err == nil {
			send("lag_events", missingHelp, prometheus.GaugeValue, float64(missing), sub.Name)
		}
	}
	desc := prometheus.NewDesc("watership_subscriptions", "Number of subscriptions by state.", []string{"state"}, nil)
	for state, n := range states {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), string(state))
	}
}
