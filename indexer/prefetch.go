package indexer

// flow chooses how many messages the broker hands out before it wants
// acknowledgements. AMQP counts messages and the bound is in bytes, so a queue
// is begun with as few as fit if they are as large as they can be. Their size is
// seen, and the queue consumed anew with another number where that is far from right.
type prefetchTuner struct {
	maxBytes     int // that may be handed out
	maxMessages  int // messages
	prefetch     int // messages
	meanBytes    int // bytes of a message
	received     int // messages with this prefetch
	changed      bool
	lastSequence int64 // the last sequence that this process gave to an event of the queue, 0 before

	acknowledged sequenceRanges // of sessions whose acknowledgements the broker has
}

const (
	prefetchBatches   = writers + 2 // those being written, one ready, one being collected
	maxPrefetchGrowth = 128         // times more at once
	maxPrefetch       = 65535       // AMQP 0-9-1 basic.qos: a short

	// A message costs more than its body: its headers and what is made of them.
	messageOverhead = 2 << 10 // bytes

	// largestMessage is what RabbitMQ 4 takes by default (max_message_size).
	largestMessage = 16 << 20 // bytes
)

func newPrefetchTuner(bytes, most int) *prefetchTuner {
	most = min(most, maxPrefetch)
	return &prefetchTuner{maxBytes: bytes, maxMessages: most, prefetch: min(max(1, bytes/largestMessage), most)}
}

// batch is how many messages one batch may have, so that there are always some
// being collected while others are written.
func (f *prefetchTuner) messagesPerBatch() int { return max(1, f.prefetch/prefetchBatches) }

// begin begins a session with the prefetch that was chosen.
func (f *prefetchTuner) startSession() int {
	f.received, f.changed = 0, false
	return f.prefetch
}

// saw takes notice of messages and their bytes in all, and says, once in a
// session, whether to consume anew.
func (f *prefetchTuner) observe(messages, bytes int) bool {
	if f.changed {
		return false
	}
	f.received += messages
	mean := bytes/messages + messageOverhead
	f.meanBytes = max(mean, (3*f.meanBytes+mean)/4) // growing counts at once
	fits := max(1, f.maxBytes/f.meanBytes)
	if f.prefetch > 2*fits {
		return f.set(fits)
	}
	more := min(f.prefetch*maxPrefetchGrowth, fits, f.maxMessages)
	if f.received >= f.prefetch && more >= min(2*f.prefetch, f.maxMessages) && more > f.prefetch {
		return f.set(more)
	}
	return false
}

// further says whether more that comes again may wait than was asked for, and
// clearly more can be asked for.
func (f *prefetchTuner) grow(messages, bytes int) bool {
	mean := bytes/messages + messageOverhead
	more := min(f.maxBytes/mean, f.maxMessages)
	return messages >= f.prefetch && more > f.prefetch+f.prefetch/4 && f.set(more)
}

func (f *prefetchTuner) set(prefetch int) bool {
	f.prefetch, f.changed = prefetch, true
	return true
}
