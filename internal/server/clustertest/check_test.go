package clustertest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// account is what publishers, service and store know of the messages of a run.
type account struct {
	messages []message
	calls    []call
	events   []event
}

// delay is the delay of the first retry, and attempts the highest number of an attempt that a message
// of the service can have.
const (
	delay    = time.Second
	attempts = 2
)

// broken returns a sentence for each promise that was not kept.
func (a account) broken() (found []string) {
	tell := func(format string, values ...any) { found = append(found, fmt.Sprintf(format, values...)) }
	calls, events := a.callsByMessage(), map[string]map[string][]event{}
	ids := map[string]int{}
	for _, e := range a.events {
		if events[e.message] == nil {
			events[e.message] = map[string][]event{}
		}
		events[e.message][e.action] = append(events[e.message][e.action], e)
		if ids[e.id]++; ids[e.id] == 2 {
			tell("the store has the event %s twice", e.id)
		}
	}
	for _, m := range a.messages {
		published := len(events[m.id]["published"])
		if m.confirmed.IsZero() {
			if published > 1 {
				tell("%s, which was not confirmed, is published %d times in the store", m.id, published)
			}
			continue
		}
		if published != 1 {
			tell("%s was confirmed and is published %d times in the store", m.id, published)
		}
		handled, poisoned := len(events[m.id]["handled"]), len(events[m.id]["poisoned"])
		if (m.kind == poison) != (poisoned > 0) || (m.kind == poison) == (handled > 0) {
			tell("%s is %s and has %d events handled, %d poisoned", m.id, m.kind, handled, poisoned)
		}
		if m.kind == again && len(events[m.id]["retry_scheduled"]) == 0 {
			tell("%s is %s and has no event retry_scheduled", m.id, m.kind)
		}
		found = append(found, m.attempts(calls[m.id])...)
	}
	found = append(found, a.outOfOrder(calls, events)...)
	return append(found, a.undelivered(calls)...)
}

func (a account) callsByMessage() map[string][]call {
	calls := map[string][]call{}
	for _, c := range a.calls {
		calls[c.id] = append(calls[c.id], c)
	}
	return calls
}

// attempts checks the calls of handlers for a message.
func (m message) attempts(calls []call) (found []string) {
	last := 1
	if m.kind == again {
		last = attempts
	}
	var failed time.Time
	decided := false
	for _, c := range calls {
		switch {
		case c.path == "events":
			continue
		case c.attempt < 1 || c.attempt > last:
			found = append(found, fmt.Sprintf("%s is %s and has an attempt %d", m.id, m.kind, c.attempt))
		case c.status == 500 && (failed.IsZero() || c.ended.Before(failed)):
			failed = c.ended
		}
		decided = decided || c.final()
	}
	if !decided {
		found = append(found, fmt.Sprintf("%s was confirmed and has no call that decides it, of %d calls", m.id, len(calls)))
	}
	for _, c := range calls {
		if c.path != "events" && c.attempt > 1 && c.begun.Sub(failed) < delay {
			found = append(found, fmt.Sprintf("attempt %d of %s came %v after the first had failed", c.attempt, m.id, c.begun.Sub(failed)))
		}
	}
	return found
}

// outOfOrder checks the order of each account of the ledger: that of the handlers, and that of the record.
func (a account) outOfOrder(calls map[string][]call, events map[string]map[string][]event) (found []string) {
	for _, of := range a.byAccount() {
		var decided time.Time
		var before, sequenceOf string
		var sequence int64
		for _, m := range of {
			var begun, end time.Time
			for _, c := range calls[m.id] {
				if c.path == "events" {
					continue
				}
				if begun.IsZero() || c.begun.Before(begun) {
					begun = c.begun
				}
				if c.final() && (end.IsZero() || c.ended.Before(end)) {
					end = c.ended
				}
			}
			if !begun.IsZero() && begun.Before(decided) {
				found = append(found, fmt.Sprintf("%s of %s was handled %v before %s had an outcome", m.id, m.account, decided.Sub(begun), before))
			}
			if end.After(decided) {
				decided, before = end, m.id
			}
			for _, e := range events[m.id]["published"] {
				if e.sequence < sequence {
					found = append(found, fmt.Sprintf("%s of %s is before %s in the record", m.id, m.account, sequenceOf))
				}
				sequence, sequenceOf = e.sequence, m.id
			}
		}
	}
	return found
}

// byAccount returns the confirmed messages of each account in their order.
func (a account) byAccount() map[string][]message {
	by := map[string][]message{}
	for _, m := range a.messages {
		if m.account != "" && !m.confirmed.IsZero() {
			by[m.account] = append(by[m.account], m)
		}
	}
	for _, of := range by {
		slices.SortFunc(of, func(a, b message) int { return cmp.Compare(a.version, b.version) })
	}
	return by
}

// undelivered checks the subscription: it delivers each message of the ledger, first deliveries in the order of
// their positions.
func (a account) undelivered(calls map[string][]call) (found []string) {
	for _, of := range a.byAccount() {
		for _, m := range of {
			if !slices.ContainsFunc(calls[m.id], func(c call) bool { return c.path == "events" && c.final() }) {
				found = append(found, m.id+" was not delivered to the subscription")
			}
		}
	}
	highest, seen := int64(0), map[string]bool{}
	deliveries := slices.DeleteFunc(slices.Clone(a.calls), func(c call) bool { return c.path != "events" })
	slices.SortStableFunc(deliveries, func(a, b call) int { return a.begun.Compare(b.begun) })
	for _, c := range deliveries {
		text, _, _ := strings.Cut(c.position, ":")
		position, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			found = append(found, fmt.Sprintf("%s has the position %q", c.id, c.position))
		}
		if !seen[c.position] && position < highest {
			found = append(found, fmt.Sprintf("%s was delivered to the subscription after later events", c.id))
		}
		seen[c.position], highest = true, max(highest, position)
	}
	return found
}

// repeats returns the number of calls of handlers that repeat an attempt.
func (a account) repeats() (n int) {
	seen := map[string]bool{}
	for _, c := range a.calls {
		if c.path == "events" {
			continue
		}
		if attempt := fmt.Sprint(c.id, " ", c.attempt); seen[attempt] {
			n++
		} else {
			seen[attempt] = true
		}
	}
	return n
}

// longestWait returns the longest time from the publishing of a confirmed message to its first call.
func (a account) longestWait() (longest time.Duration) {
	calls := a.callsByMessage()
	for _, m := range a.messages {
		var begun time.Time
		for _, c := range calls[m.id] {
			if c.path != "events" && (begun.IsZero() || c.begun.Before(begun)) {
				begun = c.begun
			}
		}
		if !m.confirmed.IsZero() && !begun.IsZero() {
			longest = max(longest, begun.Sub(m.published))
		}
	}
	return longest
}

// gap is the longest time without any of some moments, between two times.
func gap(moments []time.Time, from, to time.Time) (longest time.Duration, begin time.Time) {
	within := []time.Time{from, to}
	for _, m := range moments {
		if m.After(from) && m.Before(to) {
			within = append(within, m)
		}
	}
	slices.SortFunc(within, time.Time.Compare)
	for i := range within[1:] {
		if d := within[i+1].Sub(within[i]); d > longest {
			longest, begin = d, within[i]
		}
	}
	return longest, begin
}
