package simulation

import (
	"strings"
	"time"
)

// endsProcess reports whether the handler of a message ends its process, at each delivery.
func (w *world) endsProcess(id, queue string) bool {
	return queue == plainQueue && strings.HasPrefix(id, firstPublishers) && drawn(w.seed, id, "crash")/7%800 == 0
}

// crash ends the process of a handler, and starts it again.
func (l *life) crash() {
	if l.process.current() != l {
		return
	}
	began := time.Now()
	l.process.kill()
	l.world.restarts.Go(func() {
		time.Sleep(time.Second + time.Duration(l.world.nextOffset()))
		l.process.start()
		l.world.oracle.faults.add(span{from: began, to: time.Now()})
	})
}

// isPoison says that the store has the event of a poison message. For one whose handler ends the process that
// is the outcome.
func (o *oracle) isPoison(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if m := o.messages[id]; m != nil && o.world.endsProcess(id, m.queue) {
		o.finished[id] = time.Now()
	}
}
