package broker

import "time"

// QueueLengths returns the number of messages in each queue of a virtual host,
// unacknowledged ones included.
func (b *Broker) QueueLengths(vhost string) map[string]int {
	v, there := b.vhosts[vhost]
	if !there {
		return nil
	}
	v.lock()
	defer v.unlock()
	lengths := make(map[string]int, len(v.queues))
	for name, q := range v.queues {
		lengths[name] = q.ready.len() + q.unacked
	}
	return lengths
}

// CloseExternal closes all listeners and connections except listeners and connections
// of ListenInternal, as a broker that shuts down. It ends the memory limit of the
// latter, so that the process finishes its work before Close.
func (b *Broker) CloseExternal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.externalClosed = true
	for listener, inside := range b.listeners {
		if !inside {
			listener.Close()
		}
	}
	for c := range b.connections {
		if !c.internal {
			c.shutDown()
		}
	}
	b.memory.internal.disable()
}

// Close closes all connections as a broker that shuts down, gives the clients 2 s to
// answer, drops all messages, and returns when the broker's goroutines have ended.
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

// waitAtMost waits for all goroutines, and ends their connections after a timeout.
func (b *Broker) waitAtMost(timeout time.Duration) {
	timer := time.AfterFunc(timeout, b.closeStreams)
	defer timer.Stop()
	b.work.Wait()
}

func (b *Broker) closeStreams() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.connections {
		c.closeStream()
	}
}
