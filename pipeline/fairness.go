package pipeline

import (
	"time"

	"github.com/watershipmq/watership/schemas"
)

// Fairness divides the handlers of a route among the keys of its messages, such as the
// receivers of webhooks, so that a receiver that is slow or fails delays no other. Each key
// has a breaker as Route.Breaker says; the breaker of the route opens only if Messages keys that
// worked fail and none succeeds. A message waits in the process for a few seconds for its
// turn, and then in a delay queue, without losing an attempt. After Breaker.MaxWait it no
// longer waits for the breaker of its key.
type Fairness struct {
	// Key returns the key of a message; "": it has none, and is not limited. A panic is
	// logged, and the message has no key. Nil: no fairness.
	Key func(schemas.Envelope) string

	// Concurrency is the number of messages of one key that are handled at once. Zero: an
	// eighth of Route.Concurrency, at least 1.
	Concurrency int

	// Rate is the number of messages of one key that start in a second at most, in each process, evenly
	// spread. Zero: no limit.
	Rate float64

	// Ordered handles the messages of a key one after the other, in the order in which they
	// arrived. While one waits for its next attempt, the later ones wait, until it is
	// handled or poison. One process at a time handles the messages of the queue, and the
	// others wait for its end. The order holds over restarts.
	Ordered bool
}

// interval returns the least time between the starts of two messages of one key; 0: none.
func (f Fairness) interval() time.Duration {
	if f.Rate <= 0 {
		return 0
	}
	return time.Duration(float64(time.Second) / f.Rate)
}

func (f Fairness) withDefaults(concurrency int) Fairness {
	switch {
	case f.Key == nil:
	case f.Ordered:
		f.Concurrency = 1
	case f.Concurrency <= 0:
		f.Concurrency = max(1, concurrency/8)
	}
	return f
}
