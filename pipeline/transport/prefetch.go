package transport

// prefetchTuner adapts the prefetch to the size of messages. AMQP counts messages and
// the bound is in bytes, so consuming begins with as few messages as fit if they have the
// maximum size, and goes on with more once the observed messages are smaller.
type prefetchTuner struct {
	bytes    int // of prefetched messages; 0: no bound
	most     int // messages
	prefetch int // messages
	typical  int // bytes of a message: at once as large as the largest, and slowly smaller
	seen     int // messages with this prefetch
	refused  int // messages until the prefetch may decrease again after undo
}

const (
	// largestMessage is the default max_message_size of RabbitMQ 4.
	largestMessage = 16 << 20 // bytes

	prefetchStep    = 4  // times more at once
	leastToGrow     = 16 // messages seen before
	typicalDecrease = 8  // a message counts for an eighth where it is smaller
)

func newPrefetchTuner(bytes, most int) *prefetchTuner {
	t := &prefetchTuner{bytes: bytes, most: most, prefetch: most}
	if bytes > 0 {
		t.prefetch = min(max(1, bytes/largestMessage), most)
	}
	return t
}

// observe records a message's size, and reports whether the prefetch has changed.
func (t *prefetchTuner) observe(size int) bool {
	if t.bytes == 0 {
		return false
	}
	t.seen++
	t.typical = max(size, t.typical-(t.typical-size)/typicalDecrease)
	t.refused = max(0, t.refused-1)
	if fits := t.fits(); t.refused == 0 && t.prefetch > 2*fits {
		return t.set(fits)
	}
	return t.seen >= max(leastToGrow, 2*t.prefetch) && t.grow()
}

// fits returns the prefetch for messages of the observed size.
func (t *prefetchTuner) fits() int { return min(max(1, t.bytes/max(t.typical, 1)), t.most) }

// mayGrow reports whether as many messages were seen as are prefetched, and more would fit.
func (t *prefetchTuner) mayGrow() bool {
	return t.bytes > 0 && t.seen >= t.prefetch && t.fits() > t.prefetch
}

// grow increases the prefetch, if more messages fit.
func (t *prefetchTuner) grow() bool {
	fits := t.fits()
	return fits > t.prefetch && t.set(min(fits, prefetchStep*t.prefetch))
}

func (t *prefetchTuner) set(prefetch int) bool {
	t.prefetch, t.seen = prefetch, 0
	return true
}

// undo sets the prefetch that the consumer still has, to change it later.
func (t *prefetchTuner) undo(prefetch int) {
	t.prefetch, t.seen, t.refused = prefetch, prefetch, leastToGrow
}
