package indexer

// flow chooses how many messages the broker hands out before it wants
// acknowledgements. AMQP counts messages and the bound is in bytes, so a queue
// is begun with as few as fit if they are as large as they can be. Their size is
// seen, and the queue consumed anew with another number where that is far from right.
type flow struct {
	bytes    int // that may be handed out
	most     int // messages
	prefetch int // messages
	mean     int // bytes of a message
	taken    int // messages with this prefetch
	changed  bool
	given    int64 // the last sequence that this process gave to an event of the queue, 0 before

	acknowledged spans // of sessions whose acknowledgements the broker has
}

const (
	prefetchBatches = writers + 2 // those being written, one ready, one being collected
	prefetchStep    = 128         // times more at once
	maxPrefetch     = 65535       // AMQP 0-9-1 basic.qos: a short

	// A message costs more than its body: its headers and what is made of them.
	messageOverhead = 2 << 10 // bytes

	// largestMessage is what RabbitMQ 4 takes by default (max_message_size).
	largestMessage = 16 << 20 // bytes
)

func newFlow(bytes, most int) *flow {
	most = min(most, maxPrefetch)
	return &flow{bytes: bytes, most: most, prefetch: min(max(1, bytes/largestMessage), most)}
}

// batch is how many messages one batch may have, so that there are always some
// being collected while others are written.
func (f *flow) batch() int { return max(1, f.prefetch/prefetchBatches) }

// begin begins a session with the prefetch that was chosen.
func (f *flow) begin() int {
	f.taken, f.changed = 0, false
	return f.prefetch
}

// saw takes notice of messages and their bytes in all, and says, once in a
// session, whether to consume anew.
func (f *flow) saw(messages, bytes int) bool {
	if f.changed {
		return false
	}
	f.taken += messages
	mean := bytes/messages + messageOverhead
	f.mean = max(mean, (3*f.mean+mean)/4) // growing counts at once
	fits := max(1, f.bytes/f.mean)
	if f.prefetch > 2*fits {
		return f.set(fits)
	}
	more := min(f.prefetch*prefetchStep, fits, f.most)
	if f.taken >= f.prefetch && more >= min(2*f.prefetch, f.most) && more > f.prefetch {
		return f.set(more)
	}
	return false
}

// further says whether more that comes again may wait than was asked for, and
// clearly more can be asked for.
func (f *flow) further(messages, bytes int) bool {
	mean := bytes/messages + messageOverhead
	more := min(f.bytes/mean, f.most)
	return messages >= f.prefetch && more > f.prefetch+f.prefetch/4 && f.set(more)
}

func (f *flow) set(prefetch int) bool {
	f.prefetch, f.changed = prefetch, true
	return true
}
