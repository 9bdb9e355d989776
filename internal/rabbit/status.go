package rabbit

import (
	"errors"
	"sync"
)

// status is the present state of a Connection.
type status struct {
	live        *link // nil while disconnected
	connections int   // number of connections so far
	lastErr     error // of the last attempt, nil while connected
	blocked     bool  // after connection.blocked: the broker reads nothing from this connection
	closed      bool
	frameMax    int // negotiated last

	changed chan struct{} // closed and replaced whenever live or blocked changes
}

// err returns why there is no connection.
func (s status) err() error {
	switch {
	case s.closed:
		return ErrClosed
	case s.live != nil:
		return nil
	case s.lastErr == nil:
		return errors.New("not connected yet")
	}
	return s.lastErr
}

// changingStatus is a status that goroutines read and wait for.
type changingStatus struct {
	mu  sync.Mutex // guards now
	now status
}

func (c *changingStatus) get() status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// set sets the connection, or the error of an attempt.
func (c *changingStatus) set(live *link, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.live, c.now.lastErr, c.now.blocked = live, err, false
	if live != nil {
		c.now.connections++
		c.now.frameMax = live.Config.FrameSize
	}
	c.notify()
}

func (c *changingStatus) setBlocked(blocked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.blocked = blocked
	c.notify()
}

func (c *changingStatus) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.closed = true
}

// unlessClosed calls f before close returns; false after close.
func (c *changingStatus) unlessClosed(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.now.closed {
		f()
	}
	return !c.now.closed
}

// notify wakes all goroutines that wait for a change. The caller holds mu.
func (c *changingStatus) notify() {
	close(c.now.changed)
	c.now.changed = make(chan struct{})
}
