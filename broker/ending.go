package broker

import "time"

// Kept is how many messages each queue of a virtual host has, handed out or not.
func (b *Broker) Kept(vhost string) map[string]int {
	v, there := b.vhosts[vhost]
	if !there {
		return nil
	}
	v.lock()
	defer v.unlock()
	kept := make(map[string]int, len(v.queues))
	for name, q := range v.queues {
		kept[name] = q.ready.len() + q.unacked
	}
	return kept
}

// Dismiss tells all but the inside that the broker shuts down, and stops nobody
// inside for want of memory any more, so that what is in hand there comes to an
// end before Close.
func (b *Broker) Dismiss() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dismissed = true
	for listener, inside := range b.listeners {
		if !inside {
			listener.Close()
		}
	}
	for c := range b.connections {
		if !c.inside {
			c.shutDown()
		}
	}
	b.memory.inside.lift()
}

// Close tells clients that the broker shuts down, gives them a moment to answer,
// and drops everything. It waits for the broker's goroutines.
func (b *Broker) Close() error {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.done)
	}
	for listener := range b.listeners {
		listener.Close()
	}
	for c := range b.connections {
		c.shutDown()
	}
	b.mu.Unlock()
	b.waitAtMost(closeTimeout)
	return nil
}

// waitAtMost waits for all goroutines, and after a while ends what they wait for.
func (b *Broker) waitAtMost(patience time.Duration) {
	timer := time.AfterFunc(patience, b.hangUp)
	defer timer.Stop()
	b.work.Wait()
}

func (b *Broker) hangUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.connections {
		c.hangUp()
	}
}
