package schemas

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// DefaultPrefix is the first part of the names of Watership's exchanges and queues,
// unless the configuration has another.
const DefaultPrefix = "watership"

// Topology has the names of Watership's exchanges and queues. The zero value uses
// DefaultPrefix.
type Topology struct {
	Prefix string

	// IndexLimit is the greatest number of messages in the queue of tap copies and
	// in the queue of late copies; RabbitMQ drops the oldest beyond it. It is part
	// of the queues' names, since a queue's arguments never change. Zero: no limit.
	IndexLimit int64

	// ClassicIndex is whether the queues of tap copies and of late copies are classic
	// ones, in an installation of quorum queues. It is part of their names, too.
	ClassicIndex bool
}

// Name returns a name of Watership, which is the prefix with a suffix.
func (t Topology) Name(suffix string) string {
	if t.Prefix == "" {
		return DefaultPrefix + suffix
	}
	return t.Prefix + suffix
}

// Tap returns the internal fanout exchange to which each tapped exchange is bound.
func (t Topology) Tap() string { return t.Name(".tap") }

// Events returns the topic exchange of lifecycle events; the routing key is the
// action.
func (t Topology) Events() string { return t.Name(".events") }

// Log returns the queue of lifecycle events.
func (t Topology) Log() string { return t.Name(".log") }

// Index returns the queue of tap copies.
func (t Topology) Index() string { return tapQueue(t, ".index") }

// Late returns the fanout exchange for tap copies that expired while the indexer
// lagged.
func (t Topology) Late() string { return t.Name(".late") }

// IndexLate returns the queue of tap copies that expired while the indexer lagged.
func (t Topology) IndexLate() string { return tapQueue(t, ".index.late") }

func tapQueue(t Topology, suffix string) string {
	if t.ClassicIndex {
		suffix += ".classic"
	}
	if t.IndexLimit > 0 {
		suffix += "." + strconv.FormatInt(t.IndexLimit, 10)
	}
	return t.Name(suffix)
}

// FormerIndex reports whether a queue is a queue of tap copies or of late copies
// with another limit or of another type, and returns the topology with that.
func (t Topology) FormerIndex(queue string) (former Topology, is bool) {
	for _, classic := range []bool{false, true} {
		unlimited := Topology{Prefix: t.Prefix, ClassicIndex: classic}
		for _, name := range []string{unlimited.Index(), unlimited.IndexLate()} {
			former = unlimited
			if digits, limited := strings.CutPrefix(queue, name+"."); limited {
				former.IndexLimit, _ = strconv.ParseInt(digits, 10, 64) // 0 for a name without a limit
			}
			if queue == former.Index() || queue == former.IndexLate() {
				return former, former != t
			}
		}
	}
	return Topology{Prefix: t.Prefix}, false
}

// Retry returns the name of the exchange and the queue for dead letters of
// consumers in any language.
func (t Topology) Retry() string { return t.Name(".retry") }

// Report returns the name of the exchange and the queue for reports of consumers in any
// language: see docs/protocol.md.
func (t Topology) Report() string { return t.Name(".report") }

// Direct returns the direct exchange that routes messages to one of Watership's
// queues, or to the queue of a route: the routing key is the name of the queue.
func (t Topology) Direct() string { return t.Name(".direct") }

// Delays returns the names of the queues in which messages wait.
func (t Topology) Delays() Delays {
	return Delays{current: t.Name(".wait."), former: t.Name(".delay."), due: t.Name(".due")}
}

// Pauses returns the direct exchange that reports which routes an operator has paused.
func (t Topology) Pauses() string { return t.Name(".pauses") }

// Paused returns the queue that is bound to the exchange Pauses by the name of the queue of
// each paused route. It keeps no message.
func (t Topology) Paused() string { return t.Name(".paused") }

// Return returns the headers exchange of the last hop to queues of other services.
func (t Topology) Return() string { return t.Name(".return") }

// Poison returns the queue of poison messages.
func (t Topology) Poison() string { return t.Name(".poison") }

// Places returns the queue with the places of the messages of a queue in the order of their
// keys.
func (t Topology) Places(queue string) string { return ofQueue(t.Name(".places."), queue) }

// Order returns the exclusive queue of the process that handles the messages of a queue in the
// order of their keys.
func (t Topology) Order(queue string) string { return ofQueue(t.Name(".order."), queue) }

// Unstorable returns the queue of messages too large for the store.
func (t Topology) Unstorable() string { return t.Name(".unstorable") }

// Exchanges returns the names of Watership's exchanges.
func (t Topology) Exchanges() []string {
	return []string{t.Tap(), t.Events(), t.Late(), t.Retry(), t.Report(), t.Direct(), t.Return(), t.Pauses()}
}

// Queues returns the names of Watership's queues without the delay queues.
func (t Topology) Queues() []string {
	return append(t.Indexed(), t.Retry(), t.Report(), t.Delays().Due(), t.Poison(), t.Unstorable(), t.Paused())
}

// Indexed returns the queues that the indexer consumes.
func (t Topology) Indexed() []string { return []string{t.Log(), t.Index(), t.IndexLate()} }

// Owns reports whether an exchange or queue belongs to Watership.
func (t Topology) Owns(name string) bool { return strings.HasPrefix(name, t.Name(".")) }

// ReturnArguments returns the arguments of a binding of the exchange Return to a queue:
// it routes by the header with the name of the queue whose consumer failed.
func (t Topology) ReturnArguments(queue string) amqp.Table {
	return amqp.Table{"x-match": "all", headerQueue: queue}
}

// Parking returns the queue for copies of the messages that a queue's route has given up.
// Its name has no prefix, since it belongs to the service, as the queue does.
func (t Topology) Parking(queue string) string { return queue + ".poison" }

// ofQueue returns a name that ends with the name of a queue, or with its digest if it is too long.
func ofQueue(prefix, queue string) string {
	if name := prefix + queue; len(name) <= longestName {
		return name
	}
	sum := sha256.Sum256([]byte(queue))
	return prefix + hex.EncodeToString(sum[:])
}
