package tracing

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"
)

// durations measure attempts. They keep the attributes of a place, which all of its messages have in common: making
// a set of attributes costs more than the measurement.
type durations struct {
	messagingconv.ProcessDuration

	mu   sync.RWMutex // guards sets
	sets map[measured]attribute.Set
}

// measured are the attempts with the same attributes.
type measured struct {
	place
	failed bool
}

// maxSets bounds the places that are kept. The SDK keeps measurements of no more (OTEL_GO_X_CARDINALITY_LIMIT).
const maxSets = 2000

func newDurations(meter metric.Meter) (*durations, error) {
	advised := metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
	histogram, err := messagingconv.NewProcessDuration(meter, advised)
	return &durations{ProcessDuration: histogram, sets: map[measured]attribute.Set{}}, err
}

// attributes returns those of an attempt. Texts of messages and of errors have no place there.
func (d *durations) attributes(of place, failed bool) attribute.Set {
	key := measured{of, failed}
	d.mu.RLock()
	set, known := d.sets[key]
	d.mu.RUnlock()
	if known {
		return set
	}
	all := []attribute.KeyValue{
		semconv.MessagingSystemRabbitMQ, semconv.MessagingOperationName("process"), semconv.MessagingOperationTypeProcess,
		semconv.MessagingDestinationName(of.destination()),
	}
	if failed {
		all = append(all, semconv.ErrorTypeOther)
	}
	set = attribute.NewSet(all...)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.sets) < maxSets {
		d.sets[key] = set
	}
	return set
}
