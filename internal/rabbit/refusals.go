package rabbit

import "time"

const defaultRefusals = 5 * time.Second

// refusals are the messages that full queues refused on one channel. RabbitMQ informs each channel that publishes to a
// quorum queue when the queue is full, and when it no longer is. RabbitMQ 3.10 does not if the limit is removed,
// so that the channel refuses all messages for ever, and another channel accepts them. The zero value has none.
type refusals struct {
	since    time.Time // the first one
	awaiting time.Time // since no message is sent, until all are confirmed
}

func (r *refusals) add() {
	if r.since.IsZero() {
		r.since = time.Now()
	}
}

// areOld reports whether another channel should replace this one.
func (r *refusals) areOld(after time.Duration) bool {
	return !r.since.IsZero() && time.Since(r.since) >= after
}

// confirmsTimeout is how long a channel waits for its confirms before another one replaces it, and sends nothing.
const confirmsTimeout = time.Second

// awaitConfirms reports whether to wait for the confirms of a channel before another one replaces it. A queue may confirm
// nothing: the channel is used further then, and replaced later.
func (r *refusals) awaitConfirms() bool {
	switch now := time.Now(); {
	case r.awaiting.IsZero():
		r.awaiting = now
	case now.Sub(r.awaiting) >= confirmsTimeout:
		*r = refusals{since: now}
		return false
	}
	return true
}
