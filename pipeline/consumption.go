package pipeline

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// unconsumedGrace is how long a queue may have no consumer of this process, as after a lost
// channel, before that is an error.
const unconsumedGrace = 10 * time.Second

// consumption knows whether the process consumes a queue as it should.
type consumption struct {
	mu    sync.Mutex // guards the fields below
	why   error      // nil: it does
	since time.Time
}

// report is called by the subscriptions of the queue.
func (c *consumption) report(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if why != nil && c.why == nil {
		c.since = time.Now()
	}
	c.why = why
}

// problem returns why the queue has not been consumed for some time.
func (c *consumption) problem(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == nil || now.Sub(c.since) < unconsumedGrace {
		return nil
	}
	return fmt.Errorf("since %s: %w", c.since.UTC().Format(time.RFC3339), c.why)
}

// Unconsumed returns an error that names a queue which the process should consume and does
// not, and the reason. Nil: none exists. A route that is paused, or whose messages another
// process handles in order, is no error.
func (p *Pipeline) Unconsumed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var queues []string
	for queue := range p.consumptions {
		queues = append(queues, queue)
	}
	slices.Sort(queues)
	for _, queue := range queues {
		if a := p.admissions[queue]; a != nil && !a.State().Standby.IsZero() {
			continue
		}
		if err := p.consumptions[queue].problem(time.Now()); err != nil {
			return fmt.Errorf("queue %s is not consumed %w", queue, err)
		}
	}
	return nil
}

// consumptionOf returns the consumption of a queue. The caller holds mu, or nothing runs yet.
func (p *Pipeline) consumptionOf(queue string) *consumption {
	c := p.consumptions[queue]
	if c == nil {
		c = &consumption{}
		p.consumptions[queue] = c
	}
	return c
}
