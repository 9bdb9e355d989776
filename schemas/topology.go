package schemas

import (
	"strconv"
	"strings"
	"time"
)

// DefaultPrefix is the first part of the names of our exchanges and queues
// unless the configuration says otherwise.
const DefaultPrefix = "watership"

// Topology names our exchanges and queues. The zero value uses DefaultPrefix.
type Topology struct {
	Prefix string

	// IndexLimit is the greatest number of messages that the queue of tap copies
	// and the one of late copies keep each; beyond it the oldest are dropped. It is
	// part of their names, since a queue's arguments never change. Zero: no limit.
	IndexLimit int64
}

func (t Topology) name(suffix string) string {
	if t.Prefix == "" {
		return DefaultPrefix + suffix
	}
	return t.Prefix + suffix
}

// Tap is the internal fanout exchange to which each tapped exchange is bound.
func (t Topology) Tap() string { return t.name(".tap") }

// Events is the topic exchange of lifecycle events; the routing key is the action.
func (t Topology) Events() string { return t.name(".events") }

// Log is the queue of lifecycle events.
func (t Topology) Log() string { return t.name(".log") }

// Index is the queue of tap copies.
func (t Topology) Index() string { return t.limited(".index") }

// Late is the fanout exchange for tap copies that expired while the indexer lagged.
func (t Topology) Late() string { return t.name(".late") }

// IndexLate is the queue of tap copies that expired while the indexer lagged.
func (t Topology) IndexLate() string { return t.limited(".index.late") }

func (t Topology) limited(suffix string) string {
	if t.IndexLimit > 0 {
		suffix += "." + strconv.FormatInt(t.IndexLimit, 10)
	}
	return t.name(suffix)
}

// FormerIndex says whether a queue is that of tap copies, or of late ones, under
// another limit, and gives the topology that it is of.
func (t Topology) FormerIndex(queue string) (former Topology, is bool) {
	former = Topology{Prefix: t.Prefix}
	for _, unlimited := range []string{former.Index(), former.IndexLate()} {
		if digits, limited := strings.CutPrefix(queue, unlimited+"."); limited {
			former.IndexLimit, _ = strconv.ParseInt(digits, 10, 64) // 0 for what is no limit
		}
	}
	return former, (queue == former.Index() || queue == former.IndexLate()) && former.IndexLimit != t.IndexLimit
}

// Retry is the exchange and the queue of dead letters of consumers in any language.
func (t Topology) Retry() string { return t.name(".retry") }

// Direct is the direct exchange that takes messages to one of our own queues, or to the
// queue of a route: the routing key is the name of the queue.
func (t Topology) Direct() string { return t.name(".direct") }

// Delay is the queue whose messages all wait as long as d, in whole milliseconds.
func (t Topology) Delay(d time.Duration) string {
	return t.name(".wait." + strconv.FormatInt(d.Milliseconds(), 10))
}

// FormerDelay is the delay queue of d of a former release, which took messages on by
// the default exchange.
func (t Topology) FormerDelay(d time.Duration) string {
	return t.name(".delay." + strconv.FormatInt(d.Milliseconds(), 10))
}

// IsDelay says whether a queue is a delay queue, of any delay.
func (t Topology) IsDelay(queue string) bool { return isNumbered(queue, t.Delay(0)) }

// IsFormerDelay says whether a queue is a delay queue of a former release.
func (t Topology) IsFormerDelay(queue string) bool { return isNumbered(queue, t.FormerDelay(0)) }

// isNumbered says whether a name is like another one that ends with 0, but for that
// number.
func isNumbered(name, zeroth string) bool {
	digits, is := strings.CutPrefix(name, strings.TrimSuffix(zeroth, "0"))
	_, err := strconv.ParseUint(digits, 10, 63)
	return is && err == nil
}

// Due is the queue of messages that have waited.
func (t Topology) Due() string { return t.name(".due") }

// Return is the headers exchange of the last hop to queues of other services.
func (t Topology) Return() string { return t.name(".return") }

// Poison is the queue of messages that were given up.
func (t Topology) Poison() string { return t.name(".poison") }

// Unstorable is the queue of messages too large for the store.
func (t Topology) Unstorable() string { return t.name(".unstorable") }

// Exchanges are all of our own.
func (t Topology) Exchanges() []string {
	return []string{t.Tap(), t.Events(), t.Late(), t.Retry(), t.Direct(), t.Return()}
}

// Queues are our own but for the delay queues.
func (t Topology) Queues() []string {
	return append(t.Indexed(), t.Retry(), t.Due(), t.Poison(), t.Unstorable())
}

// Indexed are the queues that the indexer drains into the store.
func (t Topology) Indexed() []string { return []string{t.Log(), t.Index(), t.IndexLate()} }

// Owns says whether an exchange or queue is one of ours.
func (t Topology) Owns(name string) bool { return strings.HasPrefix(name, t.name(".")) }
