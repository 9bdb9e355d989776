package clustertest

import (
	"strings"
	"testing"
	"time"
)

// sound returns an account in which every promise is kept: three messages of one key, of which the second
// has a retry and the third is poison.
func sound() account {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	return account{
		messages: []message{
			{id: "a", kind: good, account: "k", version: 1, published: at(0), confirmed: at(1)},
			{id: "b", kind: again, account: "k", version: 2, published: at(1), confirmed: at(2)},
			{id: "c", kind: poison, account: "k", version: 3, published: at(2), confirmed: at(3)},
			{id: "d", kind: good, published: at(3)},
		},
		calls: []call{
			{path: "ledger", id: "a", attempt: 1, status: 200, begun: at(10), ended: at(20)},
			{path: "ledger", id: "b", attempt: 1, status: 500, begun: at(30), ended: at(40)},
			{path: "ledger", id: "b", attempt: 2, status: 200, begun: at(1040), ended: at(1050)},
			{path: "ledger", id: "c", attempt: 1, status: 422, begun: at(1060), ended: at(1070)},
			{path: "events", id: "a", status: 200, position: "1:a", begun: at(100)},
			{path: "events", id: "b", status: 200, position: "2:b", begun: at(101)},
			{path: "events", id: "a", status: 200, position: "1:a", begun: at(102)}, // again, after a crash
			{path: "events", id: "c", status: 200, position: "3:c", begun: at(103)},
		},
		events: []event{
			{id: "1", message: "a", action: "published", sequence: 1},
			{id: "2", message: "b", action: "published", sequence: 2},
			{id: "3", message: "c", action: "published", sequence: 3},
			{id: "4", message: "a", action: "handled"},
			{id: "5", message: "b", action: "retry_scheduled"},
			{id: "6", message: "b", action: "handled"},
			{id: "7", message: "c", action: "poisoned"},
		},
	}
}

// The check finds each promise that is not kept, and nothing else.
func TestCheck(t *testing.T) {
	if found := sound().broken(); len(found) > 0 {
		t.Errorf("a sound account has the faults %q", found)
	}
	for name, test := range map[string]struct {
		change func(*account)
		want   string // the only fault
	}{
		"lost from the record": {func(a *account) { a.events = a.events[1:] }, "a was confirmed and is published 0 times in the store"},
		"recorded twice":       {func(a *account) { a.events = append(a.events, event{id: "8", message: "a", action: "published"}) }, "a was confirmed and is published 2 times in the store"},
		"an event twice":       {func(a *account) { a.events = append(a.events, a.events[3]) }, "the store has the event 4 twice"},
		"unconfirmed twice": {func(a *account) {
			a.events = append(a.events, event{id: "8", message: "d", action: "published"}, event{id: "9", message: "d", action: "published"})
		}, "d, which was not confirmed, is published 2 times in the store"},
		"no outcome":          {func(a *account) { a.events = a.events[:6] }, "c is poison and has 0 events handled, 0 poisoned"},
		"another outcome":     {func(a *account) { a.events[3].action = "poisoned" }, "a is good and has 0 events handled, 1 poisoned"},
		"two outcomes":        {func(a *account) { a.events = append(a.events, event{id: "8", message: "c", action: "handled"}) }, "c is poison and has 1 events handled, 1 poisoned"},
		"no retry":            {func(a *account) { a.events[4].action = "deferred" }, "b is again and has no event retry_scheduled"},
		"an attempt too many": {func(a *account) { a.calls[3].attempt = 2 }, "c is poison and has an attempt 2"},
		"no call":             {func(a *account) { a.calls[3].status = 500 }, "c was confirmed and has no call that decides it, of 2 calls"},
		"early":               {func(a *account) { a.calls[2].begun = a.calls[2].begun.Add(-time.Millisecond) }, "attempt 2 of b came 999ms after the first had failed"},
		"out of order":        {func(a *account) { a.calls[3].begun = a.calls[2].ended.Add(-time.Millisecond) }, "c of k was handled 1ms before b had an outcome"},
		"record out of order": {func(a *account) { a.events[1].sequence = 0 }, "b of k is before a in the record"},
		"not delivered":       {func(a *account) { a.calls = a.calls[:7] }, "c was not delivered to the subscription"},
		"delivered too late":  {func(a *account) { a.calls[7].position = "0:c" }, "c was delivered to the subscription after later events"},
	} {
		t.Run(name, func(t *testing.T) {
			a := sound()
			test.change(&a)
			if found := a.broken(); len(found) == 0 || !strings.Contains(strings.Join(found, "\n"), test.want) || len(found) > 2 {
				t.Errorf("found %q, want %q", found, test.want)
			}
		})
	}
}

func TestGap(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	moments := []time.Time{begin.Add(9 * time.Second), begin.Add(3 * time.Second), begin.Add(time.Second), begin.Add(-time.Hour)}
	if d, at := gap(moments, begin, begin.Add(10*time.Second)); d != 6*time.Second || !at.Equal(begin.Add(3*time.Second)) {
		t.Errorf("the longest gap is %v at %v", d, at)
	}
}
