package indexer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/watershipmq/watership/schemas"
)

// metrics are the counters, gauges and histograms of the indexer
// (https://prometheus.io/docs/practices/naming/).
type metrics struct {
	events      *prometheus.CounterVec
	bytes       prometheus.Counter
	latency     *prometheus.HistogramVec
	inFlight    prometheus.Gauge
	batchEvents prometheus.Histogram
	batchBytes  prometheus.Histogram
	requests    *prometheus.HistogramVec
	resent      prometheus.Counter
	tooLarge    prometheus.Counter
	requeued    prometheus.Counter
	mismatches  prometheus.Counter
	forgedMarks prometheus.Counter

	watermarkFailures prometheus.Counter
}

// newMetrics registers the metrics, unless registerer is nil.
func newMetrics(registerer prometheus.Registerer) metrics {
	factory := promauto.With(registerer)
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Namespace: "watership", Subsystem: "index", Name: name, Help: help})
	}
	histogram := func(name, help string, buckets []float64) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Namespace: "watership", Subsystem: "index", Name: name, Help: help, Buckets: buckets}
	}
	gauge := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Namespace: "watership", Subsystem: "index", Name: name, Help: help}
	}
	return metrics{
		events: factory.NewCounterVec(prometheus.CounterOpts{
			Namespace: "watership", Subsystem: "index", Name: "events_total",
			Help: "Stored and acknowledged events, by action; the store refused the original document of quarantined ones.",
		}, []string{"action"}),
		bytes: counter("document_bytes_total", "Size of the documents of stored events."),
		latency: factory.NewHistogramVec(histogram("latency_seconds",
			"Time from the publishing of the newest message of a batch to its acknowledgement.",
			prometheus.ExponentialBuckets(0.01, 3, 14)), []string{"queue"}),
		inFlight:    factory.NewGauge(gauge("in_flight_bytes", "Documents being written.")),
		batchEvents: factory.NewHistogram(histogram("batch_events", "Documents in a bulk request.", prometheus.ExponentialBuckets(1, 4, 7))),
		batchBytes:  factory.NewHistogram(histogram("batch_bytes", "Size of the documents of a bulk request.", prometheus.ExponentialBuckets(1<<10, 4, 9))),
		requests: factory.NewHistogramVec(histogram("request_duration_seconds", "Time until the store answered a bulk request, by result.",
			prometheus.ExponentialBuckets(0.004, 2, 14)), []string{"result"}),
		resent:      counter("resent_events_total", "Events that were sent to the store again."),
		tooLarge:    counter("too_large_total", "Messages that are too large for the store, moved to a queue."),
		requeued:    counter("requeued_total", "Times that messages were requeued because the store did not accept them."),
		mismatches:  counter("fingerprint_mismatches_total", "Lifecycle events whose fingerprint does not match their message, which should never happen."),
		forgedMarks: counter("unknown_replays_total", "Events of messages that name a replay job which does not exist; they are stored as new messages."),

		watermarkFailures: counter("watermark_failures_total", "Times that the watermarks could not be saved, so that readers of new events wait."),
	}
}

// observeBatch counts the events of an acknowledged batch.
func (m metrics) observeBatch(queue string, b *batch, newest time.Time) {
	counts := map[schemas.Action]int{}
	for i := range b.items {
		counts[b.items[i].action]++
	}
	for action, count := range counts {
		m.events.WithLabelValues(actionLabel(action)).Add(float64(count))
	}
	m.bytes.Add(float64(b.documents.bytes))
	m.latency.WithLabelValues(queue).Observe(max(0, time.Since(newest).Seconds()))
}

// actionLabel limits the values of a label: publishers can send events of any action to
// the log exchange.
func actionLabel(action schemas.Action) string {
	switch action {
	case schemas.Published, schemas.Handled, schemas.RetryScheduled, schemas.Poisoned,
		schemas.Replayed, schemas.Discarded, schemas.Rescheduled, schemas.Quarantined, schemas.Dropped, schemas.Paused, schemas.Resumed, schemas.Audited, schemas.Triaged:
		return string(action)
	}
	return "other"
}

func (m metrics) observeRequest(duration time.Duration, items []*item, err error) {
	result := "answered"
	if err != nil {
		result = "failed"
	}
	m.requests.WithLabelValues(result).Observe(duration.Seconds())
	m.batchEvents.Observe(float64(len(items)))
	m.batchBytes.Observe(float64(documentBytes(items)))
}
