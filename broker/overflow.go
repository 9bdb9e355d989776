package broker

// Overflow behaviours (https://www.rabbitmq.com/docs/maxlength).
const (
	dropHead         = "drop-head"
	rejectPublish    = "reject-publish"
	rejectPublishDLX = "reject-publish-dlx"
)

func (s settings) rejects() bool {
	return s.overflow == rejectPublish || s.overflow == rejectPublishDLX
}

// isFull reports whether the queue rejects a message. Unacknowledged messages do not
// count. A quorum queue accepts one more than its limit, and rejects the next one.
func (q *queue) isFull(m *message) bool {
	s := q.settings
	if s.quorum {
		return q.exceedsLimits()
	}
	return s.maxLength >= 0 && int64(q.ready.len()) >= s.maxLength ||
		s.maxBytes >= 0 && q.ready.bytes+int64(len(m.body)) > s.maxBytes
}

// dropOverflow drops the oldest messages of a queue that exceeds its limits.
func (q *queue) dropOverflow() {
	if q.settings.rejects() {
		return
	}
	for q.ready.len() > 0 && q.exceedsLimits() {
		q.discard(q.ready.pop(), "maxlen")
	}
}

func (q *queue) exceedsLimits() bool {
	s := q.settings
	return s.maxLength >= 0 && int64(q.ready.len()) > s.maxLength || s.maxBytes >= 0 && q.ready.bytes > s.maxBytes
}
