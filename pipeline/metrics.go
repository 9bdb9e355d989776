package pipeline

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics say how the handlers do (https://prometheus.io/docs/practices/naming/).
type metrics struct {
	hangs *prometheus.CounterVec
}

// newMetrics registers nothing where to is nil.
func newMetrics(to prometheus.Registerer) metrics {
	return metrics{
		hangs: promauto.With(to).NewCounterVec(prometheus.CounterOpts{
			Namespace: "watership", Subsystem: "pipeline", Name: "hanging_attempts_total",
			Help: "Attempts whose handler had not returned a second after its time-out, by queue.",
		}, []string{"queue"}),
	}
}
