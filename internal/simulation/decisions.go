package simulation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/watershipmq/watership/internal/operate/waiting"
)

// decisions has the decisions of the operator about messages that wait. The mutex of the oracle guards the
// fields.
type decisions struct {
	oracle    *oracle
	cancelled map[string]time.Time // by id: since then it must have no attempt; zero: the operator does not know
	underWay  map[string]int       // requests to cancel it
	postponed []postponement
}

// postponement says that an attempt must not begin before a time.
type postponement struct {
	id      string
	attempt int
	decided time.Time
	until   time.Time // by the clock of the operator
}

// decide postpones or cancels the next attempt of the first message that waits for a while.
func (o *operator) decide(ctx context.Context, a Action) {
	in := waiting.PageInput{}
	in.Query, in.Limit = "queue: "+a.Queue, 100
	for range 60 {
		time.Sleep(500 * time.Millisecond)
		out, err := waiting.ListWaiting.Call(ctx, o.operations(), in)
		if err != nil {
			continue
		}
		for _, m := range out.Body.Messages {
			if time.Until(m.Due) > time.Second {
				o.decideAbout(ctx, a, m)
				return
			}
		}
	}
}

func (o *operator) decideAbout(ctx context.Context, a Action, m waiting.WaitingMessage) {
	in := waiting.DecideInput{}
	in.Body.IDs, in.Body.Reason = []string{m.EventID}, "the simulation"
	now, decided := time.Now(), &o.world.oracle.decisions
	if in.Body.Action = waiting.Cancel; a.Kind == Postpone {
		in.Body.Action, in.Body.NotBefore = waiting.Postpone, now.Add(10*time.Second+a.For)
	} else {
		decided.cancels(m.MessageID)
	}
	out, err := waiting.DecideWaiting.Call(ctx, o.operations(), in)
	o.world.note("operator", fmt.Sprintf("%s of %s: %d, %v", a.Kind, m.MessageID, out.Body.Done, err))
	switch certain := err == nil && out.Body.Done == 1; {
	case a.Kind == Cancel:
		decided.hasCancelled(m.MessageID, certain, err == nil && out.Body.Done == 0)
	case certain:
		decided.hasPostponed(postponement{m.MessageID, m.Attempt + 1, now, in.Body.NotBefore})
	}
}

// cancels says that the operator is about to cancel the next attempt of a message, so that later
// messages may begin.
func (d *decisions) cancels(id string) {
	d.oracle.mu.Lock()
	defer d.oracle.mu.Unlock()
	d.underWay[id]++
	if _, finished := d.oracle.finished[id]; !finished {
		d.oracle.finished[id], d.cancelled[id] = time.Now(), time.Time{}
	}
}

// hasCancelled says whether the operator has cancelled it: surely, surely not, or perhaps. Of two requests at once, one
// may have cancelled it.
func (d *decisions) hasCancelled(id string, surely, surelyNot bool) {
	d.oracle.mu.Lock()
	defer d.oracle.mu.Unlock()
	d.underWay[id]--
	if _, begun := d.cancelled[id]; !begun {
		return
	}
	switch {
	case surely:
		d.cancelled[id] = time.Now()
	case surelyNot && d.underWay[id] == 0 && d.cancelled[id].IsZero():
		delete(d.cancelled, id)
		delete(d.oracle.finished, id)
		for _, c := range d.oracle.calls { // which ended while it was not certain
			if c.id == id && !c.ended.IsZero() && (c.outcome != fails || c.attempt >= attempts) {
				d.oracle.finished[id] = c.ended
			}
		}
	}
}

func (d *decisions) hasPostponed(p postponement) {
	d.oracle.mu.Lock()
	defer d.oracle.mu.Unlock()
	d.postponed = append(d.postponed, p)
}

// check reports attempts that the operator has cancelled or postponed, where no fault before can have given
// the message a second copy.
func (d *decisions) check() {
	o := d.oracle
	for _, c := range o.calls {
		at, cancelled := d.cancelled[c.id]
		if cancelled && !at.IsZero() && c.begun.After(at) && o.faults.spare(at.Add(-time.Minute), c.begun) {
			o.world.fail("%s begins attempt %d of %s, which was cancelled", c.life.name, c.attempt, c.id)
		}
		for _, p := range d.postponed {
			hastened := slices.ContainsFunc(o.hastened, func(s span) bool { return s.has(o.messages[c.id].queue, c.begun) })
			if p.id == c.id && p.attempt == c.attempt && c.begun.After(p.decided) && c.begun.Before(p.until.Add(-o.plan.mostApart())) && !hastened &&
				o.faults.spare(p.decided.Add(-time.Minute), c.begun) {
				o.world.fail("%s begins attempt %d of %s, which was postponed, %s early", c.life.name, c.attempt, c.id, p.until.Sub(c.begun))
			}
		}
	}
}

// mayBeEarly reports whether the operator has postponed an attempt to a time that a wrong clock may find to be over. o.mu is held.
func (d *decisions) mayBeEarly(c *call) bool {
	return d.oracle.plan.mostApart() > 0 && slices.ContainsFunc(d.postponed, func(p postponement) bool { return p.id == c.id && p.attempt == c.attempt })
}

// checkRecord reports a message that was cancelled, and has no event of that. It returns false for others.
func (d *decisions) checkRecord(id string, r record) (cancelled bool) {
	at, cancelled := d.cancelled[id]
	if cancelled && !at.IsZero() && r.discarded == 0 {
		d.oracle.world.fail("%s was cancelled, and has no discarded event", id)
	}
	return cancelled
}
