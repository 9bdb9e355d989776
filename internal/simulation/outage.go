package simulation

import (
	"fmt"
	"slices"
	"time"
)

// Outage is a time in which all attempts at messages without an order fail, since a service is down. After an outage of
// an ordered key its first message decides alone when the key goes on, and one that fails by itself holds it up for longer
// than a run takes.
type Outage struct {
	At  time.Duration // after the first message
	For time.Duration
}

// String describes the outage.
func (x Outage) String() string {
	return fmt.Sprintf("%s outage of a service for %s", x.At, x.For)
}

func newOutages(seed uint64) []Outage {
	random := randomness(seed, "outages")
	if random.IntN(3) > 0 {
		return nil
	}
	return []Outage{{
		At: time.Duration(20_000+random.IntN(180_000)) * time.Millisecond, For: time.Duration(1000+random.IntN(50_000)) * time.Millisecond,
	}}
}

// outages are the outages of a run.
type outages []span

func outagesOf(plan Plan, began time.Time) (all outages) {
	for _, x := range plan.Outages {
		from := began.Add(settling + x.At)
		all = append(all, span{plainQueue, from, from.Add(x.For)})
	}
	return all
}

func (all outages) have(queue string, at time.Time) bool {
	return slices.ContainsFunc(all, func(s span) bool { return s.has(queue, at) })
}

// checkRefunds reports attempts that count although they are a part of an outage that the breaker of the route has
// found, as opened says. Only the process that had the attempts knows that.
func checkRefunds(o *oracle, opened []span) {
	if o.plan.mostApart() > 0 { // the event of the breaker has the time of a wrong clock
		return
	}
	for _, outage := range o.outages {
		for _, breaker := range opened {
			if outage.has(breaker.queue, breaker.from) && o.plan.Processes == 1 && o.faults.spare(outage.from, outage.to.Add(time.Minute)) {
				checkRefundsOf(o, outage, breaker.from)
			}
		}
	}
}

func checkRefundsOf(o *oracle, outage span, opened time.Time) {
	last := map[string]*call{}
	for _, c := range o.calls {
		before := last[c.id]
		last[c.id] = c
		if before != nil && before.outage && outage.has(o.messages[c.id].queue, before.ended) && before.ended.Before(opened) && c.begun.After(opened) && c.attempt != before.attempt {
			o.world.fail("%s had attempt %d in an outage, and then has attempt %d", c.id, before.attempt, c.attempt)
		}
	}
}
