package call

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/watershipmq/watership/retry"
)

// Metrics are the metrics of the handlers (https://prometheus.io/docs/practices/naming/).
// The label queue is the name of a route's queue or of an existing one, else other: a
// publisher can write any name into the headers of a dead letter.
type Metrics struct {
	Attempts   *prometheus.CounterVec
	durations  *prometheus.HistogramVec
	Hung       *prometheus.CounterVec
	Mismatches *prometheus.CounterVec
	Paused     *prometheus.GaugeVec
	Held       *prometheus.GaugeVec
	Standby    *prometheus.GaugeVec
	PausedKeys *prometheus.GaugeVec
	KeyWaits   *prometheus.CounterVec
}

// NewMetrics returns the metrics, and registers nothing where to is nil.
func NewMetrics(to prometheus.Registerer) *Metrics {
	factory := promauto.With(to)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return factory.NewCounterVec(prometheus.CounterOpts{Namespace: "watership", Name: name, Help: help}, labels)
	}
	return &Metrics{
		Attempts: counter("attempts_total",
			"Attempts that have ended, by the queue and by what follows: handled, retry, defer (no attempt is lost) or poison.", "queue", "result"),
		durations: factory.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "watership", Name: "attempt_duration_seconds", Help: "Time that an attempt took.",
			Buckets: prometheus.ExponentialBuckets(0.001, 3, 12),
		}, []string{"queue"}),
		Hung: counter("hung_attempts_total", "Attempts whose handler did not return at its time-out.", "queue"),
		Mismatches: counter("fingerprint_mismatches_total",
			"Messages that named the queue that they came from, with another's fingerprint, which should never happen.", "queue"),
		Held: factory.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "watership", Name: "held_messages",
			Help: "Messages that are not acknowledged since the broker does not confirm their results, by the queue that delivered them.",
		}, []string{"queue"}),
		Paused: factory.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "watership", Name: "route_paused", Help: "1 while a route is paused since the service of its handler is unavailable.",
		}, []string{"queue"}),
		Standby: factory.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "watership", Name: "route_standby", Help: "1 while another process handles the messages of an ordered route, and this one waits for its end.",
		}, []string{"queue"}),
		PausedKeys: factory.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "watership", Name: "paused_keys", Help: "Keys of a route with fairness that are paused since their messages fail.",
		}, []string{"queue"}),
		KeyWaits: counter("key_waits_total",
			"Messages that wait in a delay queue for their key, by the reason: busy, unavailable (its breaker is open) or order.", "queue", "reason"),
	}
}

// ObserveHandled observes an attempt that succeeded, with its span as State.Trace.
func (m *Metrics) ObserveHandled(queue string, took time.Duration, span string) {
	m.Attempts.WithLabelValues(queue, "handled").Inc()
	m.observeDuration(queue, took, span)
}

// ObserveFailure observes an attempt that failed, with its span as State.Trace. took is 0 if it is not known.
func (m *Metrics) ObserveFailure(label string, took time.Duration, action retry.Action, span string) {
	m.Attempts.WithLabelValues(label, ResultLabel(action)).Inc()
	if took > 0 {
		m.observeDuration(label, took, span)
	}
}

// observeDuration names the trace of a sampled span as an exemplar.
func (m *Metrics) observeDuration(queue string, took time.Duration, span string) {
	durations := m.durations.WithLabelValues(queue)
	if span == "" { // as without traces, for each attempt
		durations.Observe(took.Seconds())
		return
	}
	if parts := strings.Split(span, "-"); len(parts) == 4 && isSampled(parts[3]) {
		durations.(prometheus.ExemplarObserver).ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": parts[1], "span_id": parts[2]})
		return
	}
	durations.Observe(took.Seconds())
}

// isSampled reads the flags of a traceparent, of which others may be set.
func isSampled(flags string) bool {
	bits, err := strconv.ParseUint(flags, 16, 8)
	return err == nil && bits&1 != 0
}

// ResultLabel returns the value of the label result, which dashboards rely on.
func ResultLabel(action retry.Action) string {
	switch action {
	case retry.Retry:
		return "retry"
	case retry.Defer:
		return "defer"
	}
	return "poison"
}

// maxLabels bounds the number of queues without a route that have their own label.
const maxLabels = 1000

const otherLabel = "other"

// QueueLabels returns the label of a queue.
type QueueLabels struct {
	exists func(ctx context.Context, queue string) (bool, error)

	mu    sync.Mutex // guards known
	known map[string]bool
}

// NewQueueLabels returns the labels of the queues of routes, and of others that exist.
func NewQueueLabels(routes []string, exists func(ctx context.Context, queue string) (bool, error)) *QueueLabels {
	l := &QueueLabels{exists: exists, known: map[string]bool{}}
	for _, queue := range routes {
		l.known[queue] = true
	}
	return l
}

// Of returns the name of a queue with a route or that exists, else other.
func (l *QueueLabels) Of(ctx context.Context, queue string) string {
	l.mu.Lock()
	known, room := l.known[queue], len(l.known) < maxLabels
	l.mu.Unlock()
	if known {
		return queue
	}
	if !room {
		return otherLabel
	}
	if there, err := l.exists(ctx, queue); err != nil || !there {
		return otherLabel
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[queue] = true
	return queue
}
