package indexer

// prefetchTuner chooses the prefetch of a consumer. AMQP limits the number of
// unacknowledged messages, but memory limits their bytes: a session starts with as
// many messages as fit at the largest possible size, measures their size, and consumes
// again with another prefetch if that differs clearly.
type prefetchTuner struct {
	maxBytes    int // of unacknowledged messages
	maxMessages int
	prefetch    int // messages
	meanBytes   int // of a message
	received    int // messages with this prefetch
	changed     bool
}

const (
	prefetchBatches   = maxBulkRequests + 2 // those being written, one complete, one being filled
	maxPrefetchGrowth = 128                 // factor of one change
	maxPrefetch       = 65535               // AMQP 0-9-1 basic.qos: a short

	// messageOverhead counts the headers of a message and its decoded event, but not its
	// body and document.
	messageOverhead = 2 << 10 // bytes

	// largestMessage is the default limit of RabbitMQ 4 (max_message_size).
	largestMessage = 16 << 20 // bytes
)

func newPrefetchTuner(maxBytes, maxMessages int) *prefetchTuner {
	maxMessages = min(maxMessages, maxPrefetch)
	return &prefetchTuner{
		maxBytes: maxBytes, maxMessages: maxMessages, prefetch: min(max(1, maxBytes/largestMessage), maxMessages),
	}
}

// messagesPerBatch limits a batch to a share of the prefetch, so that one batch fills
// while others are written.
func (t *prefetchTuner) messagesPerBatch() int { return max(1, t.prefetch/prefetchBatches) }

// startSession returns the prefetch of the next session.
func (t *prefetchTuner) startSession() int {
	t.received, t.changed = 0, false
	return t.prefetch
}

// observe records received messages and the sum of their bytes. It returns true, at
// most once in a session, when the session should consume again with another prefetch.
func (t *prefetchTuner) observe(messages, bytes int) bool {
	if t.changed {
		return false
	}
	t.received += messages
	mean := bytes/messages + messageOverhead
	t.meanBytes = max(mean, (3*t.meanBytes+mean)/4) // larger messages count at once
	fits := max(1, t.maxBytes/t.meanBytes)
	if t.prefetch > 2*fits {
		return t.set(fits)
	}
	more := min(t.prefetch*maxPrefetchGrowth, fits, t.maxMessages)
	if t.received >= t.prefetch && more >= min(2*t.prefetch, t.maxMessages) && more > t.prefetch {
		return t.set(more)
	}
	return false
}

// grow raises the prefetch when redelivered messages fill it and memory has room for
// clearly more. It reports whether it did.
func (t *prefetchTuner) grow(messages, bytes int) bool {
	mean := bytes/messages + messageOverhead
	more := min(t.maxBytes/mean, t.maxMessages)
	return messages >= t.prefetch && more > t.prefetch+t.prefetch/4 && t.set(more)
}

func (t *prefetchTuner) set(prefetch int) bool {
	t.prefetch, t.changed = prefetch, true
	return true
}
