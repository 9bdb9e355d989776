package statuspage

import (
	"cmp"
	"maps"
	"slices"

	"github.com/watershipmq/watership/internal/operate/messages"
)

// Rates are the shares of failures at queues in a period, those with the most failures first.
type Rates struct {
	Queues []Rate
	Others int  // queues that are left out
	Before bool // the same period before it is known
}

// Rate counts the messages that a queue has handled, and those that it has given up.
type Rate struct {
	Queue, Link string
	Now, Before Handling
}

// Handling is the number of messages that were handled, and of those that were given up.
type Handling struct{ Handled, Failed int64 }

// Of is the number of messages of both.
func (h Handling) Of() int64 { return h.Handled + h.Failed }

// Percent is the share of those that were given up.
func (h Handling) Percent() float64 { return 100 * float64(h.Failed) / float64(max(1, h.Of())) }

// Counts are the events of a period by queue: those that were handled, and those that were given up.
type Counts struct{ Handled, Failed messages.Values }

// NewRates compares the counts of a period with the counts of the same period before it, or with nothing if before is nil.
func NewRates(now Counts, before *Counts) Rates {
	found := map[string]*Rate{}
	at := func(queue string) *Rate {
		if found[queue] == nil {
			found[queue] = &Rate{Queue: queue, Link: "/failures?" + ofQueue(queue)}
		}
		return found[queue]
	}
	for _, v := range now.Handled.Values {
		at(v.Value).Now.Handled = v.Count
	}
	for _, v := range now.Failed.Values {
		at(v.Value).Now.Failed = v.Count
	}
	rates := Rates{Before: before != nil}
	if before != nil {
		for _, v := range before.Handled.Values {
			at(v.Value).Before.Handled = v.Count
		}
		for _, v := range before.Failed.Values {
			at(v.Value).Before.Failed = v.Count
		}
	}
	sorted := slices.SortedFunc(maps.Values(found), func(a, b *Rate) int {
		return cmp.Or(cmp.Compare(b.Now.Failed, a.Now.Failed), cmp.Compare(b.Now.Handled, a.Now.Handled), cmp.Compare(a.Queue, b.Queue))
	})
	for _, rate := range sorted[:min(len(sorted), maxQueues)] {
		rates.Queues = append(rates.Queues, *rate)
	}
	rates.Others = len(sorted) - len(rates.Queues)
	return rates
}

// Worse is 1 if the share of failures is greater than before, and -1 if it is less.
func (r Rate) Worse() int { return cmp.Compare(r.Now.Percent(), r.Before.Percent()) }
