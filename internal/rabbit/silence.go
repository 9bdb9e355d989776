package rabbit

import "time"

const (
	defaultSilence = 10 * time.Second
	mostSilence    = 5 * time.Minute
)

// silence is the time for which a node confirms nothing, while messages wait for their confirms. Only the
// publisher's run goroutine uses it.
type silence struct {
	first, most time.Duration // after which a node is left, the first one and the next
	since       time.Time
}

// begin is called when no message has waited before.
func (s *silence) begin() { s.since = time.Now() }

// end is called with each confirm of a message in a queue. A node that is cut off returns and refuses messages by
// itself.
func (s *silence) end() { s.since = time.Now() }

// rest is called when no message waits that was sent again. Until then each pause is twice as long: a message whose
// queue has no majority is sent again with each connection, and all its copies may arrive.
func (s *silence) rest() { s.most = s.first }

// leave leaves the node if it has confirmed nothing for long, and there are others. One that is short of
// memory or disk says so, and holds up all nodes.
func (s *silence) leave(c *Connection, from *link) {
	if c.status.get().blocked {
		s.since = time.Now()
	}
	if time.Since(s.since) < s.most || !from.others || from.left.Swap(true) {
		return
	}
	c.log.Warn("the node has confirmed no message; connecting to another one", "node", from.node, "for", s.most)
	s.most = min(2*s.most, mostSilence)
	from.abort()
}
