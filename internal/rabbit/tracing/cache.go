package tracing

import "sync"

// cache keeps the attributes that messages of the same way have in common, because making them costs more than a span
// that is not sampled.
type cache[K comparable, V any] struct {
	mu   sync.RWMutex // guards kept
	kept map[K]V
}

// maxKept bounds a cache. Routing keys may have the id of an order, so that a full one begins again. The SDK keeps
// measurements of no more attributes (OTEL_GO_X_CARDINALITY_LIMIT).
const maxKept = 2000

// get returns the value of a key, which it makes if it has none.
func (c *cache[K, V]) get(key K, newValue func(K) V) V {
	c.mu.RLock()
	value, known := c.kept[key]
	c.mu.RUnlock()
	if known {
		return value
	}
	value = newValue(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil || len(c.kept) >= maxKept {
		c.kept = map[K]V{}
	}
	c.kept[key] = value
	return value
}
