package pipeline

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/watershipmq/watership/retry"
)

// metrics are the metrics of the handlers (https://prometheus.io/docs/practices/naming/).
// The label queue is the name of a route's queue or of an existing one, else other: a
// publisher can write any name into the headers of a dead letter.
type metrics struct {
	attempts   *prometheus.CounterVec
	durations  *prometheus.HistogramVec
	hung       *prometheus.CounterVec
	mismatches *prometheus.CounterVec
	paused     *prometheus.GaugeVec
	held       *prometheus.GaugeVec
	pausedKeys *prometheus.GaugeVec
	keyWaits   *prometheus.CounterVec
}

// newMetrics registers nothing where to is nil.
func newMetrics(to prometheus.Registerer) *metrics {
	factory := promauto.With(to)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return factory.NewCounterVec(prometheus.CounterOpts{Namespace: "watership", Name: name, Help: help}, labels)
	}
	return &metrics{
		attempts: counter("attempts_total",
			"Attempts that have ended, by the queue and by what follows: handled, again, wait (no attempt is lost) or poison.", "queue", "result"),
		durations: factory.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "watership", Name: "attempt_duration_seconds", Help: "Time that an attempt took.",
			Buckets: prometheus.ExponentialBuckets(0.001, 3, 12),
		}, []string{"queue"}),
		hung: counter("hung_attempts_total", "Attempts whose handler did not return at its time-out.", "queue"),
		mismatches: counter("fingerprint_mismatches_total",
			"Messages that named the queue that they came from, with another's fingerprint, which should never happen.", "queue"),
		held: factory.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "watership", Name: "held_messages",
			Help: "Messages that are not acknowledged since the broker does not confirm their results, by the queue that delivered them.",
		}, []string{"queue"}),
		paused: factory.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "watership", Name: "route_paused", Help: "1 while a route is paused since the service of its handler is unavailable.",
		}, []string{"queue"}),
		pausedKeys: factory.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "watership", Name: "paused_keys", Help: "Keys of a route with fairness that are paused since their messages fail.",
		}, []string{"queue"}),
		keyWaits: counter("key_waits_total",
			"Messages that wait in a delay queue for their key, by the reason: busy, unavailable (its breaker is open) or order.", "queue", "reason"),
	}
}

func (m *metrics) observeHandled(queue string, took time.Duration) {
	m.attempts.WithLabelValues(queue, "handled").Inc()
	m.durations.WithLabelValues(queue).Observe(took.Seconds())
}

func (m *metrics) observeFailure(a failedAttempt, action retry.Action) {
	m.attempts.WithLabelValues(a.label, resultLabel(action)).Inc()
	if a.took > 0 { // unknown for a dead letter
		m.durations.WithLabelValues(a.label).Observe(a.took.Seconds())
	}
}

// resultLabel returns the value of the label result, which dashboards rely on.
func resultLabel(action retry.Action) string {
	switch action {
	case retry.Retry:
		return "again"
	case retry.Defer:
		return "wait"
	}
	return "poison"
}

// maxLabels bounds the number of queues without a route that have a label of their own.
const maxLabels = 1000

const otherLabel = "other"

// queueLabels returns the label of a queue.
type queueLabels struct {
	exists func(ctx context.Context, queue string) (bool, error)

	mu    sync.Mutex // guards known
	known map[string]bool
}

func newQueueLabels(routes []Route, exists func(ctx context.Context, queue string) (bool, error)) *queueLabels {
	l := &queueLabels{exists: exists, known: map[string]bool{}}
	for _, route := range routes {
		l.known[route.Queue] = true
	}
	return l
}

func (l *queueLabels) of(ctx context.Context, queue string) string {
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
