package simulation

import (
	"slices"
	"sync"
	"time"
)

// sending is a replay of some messages.
type sending struct {
	job          string
	ids          []string
	edit         string // of a header; "": the messages are as before
	began, ended time.Time
}

// faultLasts is how long a fault may have effects after its end.
const faultLasts = time.Minute

// faultTimes are the times of all faults of a run, also of those that it did not plan.
type faultTimes struct {
	mu  sync.Mutex // guards all
	all []span
}

func faultTimesOf(plan Plan, began time.Time) *faultTimes {
	times := &faultTimes{}
	for _, f := range plan.Faults {
		if f.Kind == ClockSteps { // which excuses nothing
			continue
		}
		at := began.Add(settling + f.At)
		times.add(span{from: at, to: at.Add(f.For)})
	}
	return times
}

func (f *faultTimes) add(s span) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, s)
}

// spare reports whether there is no fault in a time.
func (f *faultTimes) spare(from, to time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !slices.ContainsFunc(f.all, func(s span) bool { return s.from.Before(to) && s.to.Add(faultLasts).After(from) })
}

// checkTwice reports attempts with a final outcome that a handler had more often than their message was sent,
// while there was no fault. An attempt that failed may return without being counted, if it looks like one of an outage.
func checkTwice(o *oracle) {
	begun := map[string][]time.Time{} // final attempts, by message
	sent := map[string][]time.Time{}
	for _, s := range o.replays {
		for _, id := range s.ids {
			sent[id] = append(sent[id], s.began)
		}
	}
	for _, c := range o.calls {
		if c.ended.IsZero() || c.outcome == fails || o.hadOutage[c.id] {
			continue
		}
		begun[c.id] = append(begun[c.id], c.begun)
		for _, from := range append([]time.Time{o.world.began}, sent[c.id]...) {
			if from.After(c.begun) {
				continue
			}
			calls, sendings := within(begun[c.id], from, c.begun), within(sent[c.id], from, c.begun)
			first := from // the message had an outcome then
			if from.Equal(o.world.began) {
				first, sendings = calls[0], append(sendings, from)
			}
			if len(calls) > len(sendings) && o.faults.spare(first, c.begun) {
				o.world.fail("%s has %s, which it must get %d times since %s, the %dth time", c.life.name, c.id, len(sendings), from.Sub(o.world.began), len(calls))
				return
			}
		}
	}
}

func within(times []time.Time, from, to time.Time) (list []time.Time) {
	for _, at := range times {
		if !at.Before(from) && !at.After(to) {
			list = append(list, at)
		}
	}
	return list
}
