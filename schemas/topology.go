package schemas

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// Topology has the names of Watership's exchanges and queues. The zero value uses
// the prefix "watership".
type Topology struct {
	Prefix string // "": watership

	// IndexLimit is the greatest number of messages in the queue of tap copies and
	// in the queue of late copies; RabbitMQ drops the oldest beyond it. It is part
	// of the queues' names, since a queue's arguments never change. Zero: no limit.
	IndexLimit int64

	// ClassicIndex is whether the queues of tap copies and of late copies are classic
	// ones, in an installation of quorum queues. It is part of their names, too.
	ClassicIndex bool

	// IndexPartitions is the number of queues that share the tap copies, which a
	// consistent-hash exchange divides by PartitionKey. It is part of their names, with the
	// key. 0 and 1: one queue gets all, and has its name alone.
	IndexPartitions int

	// PartitionKey is what copies of one queue have in common: "message_id", or "headers."
	// with the name of a header. "": their routing key. Several queues need it.
	PartitionKey string
}

// Name returns a name of Watership, which is the prefix with a suffix.
func (t Topology) Name(suffix string) string {
	if t.Prefix == "" {
		return "watership" + suffix
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

// Index returns the queue of tap copies, the first one if they are divided.
func (t Topology) Index() string {
	_, queues := t.Partitions()
	return queues[0]
}

// Partitions returns the queues that share the tap copies, and the exchange that divides
// them. The exchange is "" if there is one queue, which is bound to Tap itself.
func (t Topology) Partitions() (exchange string, queues []string) {
	name := tapQueue(t, ".index")
	if t.IndexPartitions <= 1 {
		return "", []string{name}
	}
	of := "of" + strconv.Itoa(t.IndexPartitions)
	if t.PartitionKey != "" {
		of += "." + t.PartitionKey
	}
	for n := range t.IndexPartitions {
		queues = append(queues, name+"."+strconv.Itoa(n+1)+of)
	}
	return name + "." + of, queues
}

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
// with another limit, of another type or of another division, and returns the topology with that.
func (t Topology) FormerIndex(queue string) (former Topology, is bool) {
	for _, classic := range []bool{false, true} {
		undivided, one := Topology{Prefix: t.Prefix, ClassicIndex: classic}, t
		one.IndexPartitions, one.PartitionKey = 0, ""
		for _, name := range []string{undivided.Index(), undivided.IndexLate()} {
			rest, _ := strings.CutPrefix(queue, name)
			former = undivided
			former.IndexLimit, rest = cutLimit(rest)
			if queue == former.IndexLate() { // which all divisions share
				is = former != one
				former.IndexPartitions, former.PartitionKey = t.IndexPartitions, t.PartitionKey
				return former, is
			}
			former.IndexPartitions, former.PartitionKey = cutPartition(rest)
			if _, queues := former.Partitions(); slices.Contains(queues, queue) {
				return former, former.Index() != t.Index()
			}
		}
	}
	return Topology{Prefix: t.Prefix}, false
}

// cutLimit returns the limit at the beginning of the end of a queue's name, 0 for none, and what follows it.
func cutLimit(end string) (limit int64, rest string) {
	digits, _, _ := strings.Cut(strings.TrimPrefix(end, "."), ".")
	limit, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, end
	}
	return limit, strings.TrimPrefix(end, "."+digits)
}

// cutPartition returns the number of queues, at most maxPartitions, and the key in the end of a queue's name; the
// number is 0 for a queue that gets all.
func cutPartition(end string) (partitions int, key string) {
	_, of, _ := strings.Cut(end, "of")
	digits, key, _ := strings.Cut(of, ".")
	partitions, err := strconv.Atoi(digits)
	if err != nil || partitions < 2 || partitions > maxPartitions {
		return 0, ""
	}
	return partitions, key
}

// maxPartitions bounds the names that are compared with the name of a queue.
const maxPartitions = 64

// Retry returns the name of the exchange and the queue for dead letters of
// consumers in any language.
func (t Topology) Retry() string { return t.Name(".retry") }

// Report returns the name of the exchange and the queue for reports of consumers in any
// language: see docs/protocol.md.
func (t Topology) Report() string { return t.Name(".report") }

// Direct returns the direct exchange that routes messages to one of Watership's
// queues, or to the queue of a route: the routing key is the name of the queue.
func (t Topology) Direct() string { return t.Name(".direct") }

// Due returns the queue of messages whose delay has passed.
func (t Topology) Due() string { return t.Name(".due") }

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
	all := []string{t.Tap(), t.Events(), t.Late(), t.Retry(), t.Report(), t.Direct(), t.Return(), t.Pauses()}
	if divides, _ := t.Partitions(); divides != "" {
		all = append(all, divides)
	}
	return all
}

// Queues returns the names of Watership's queues without the delay queues.
func (t Topology) Queues() []string {
	return append(t.Indexed(), t.Retry(), t.Report(), t.Due(), t.Poison(), t.Unstorable(), t.Paused())
}

// Indexed returns the queues that the indexer consumes.
func (t Topology) Indexed() []string {
	_, queues := t.Partitions()
	return append(append([]string{t.Log()}, queues...), t.IndexLate())
}

// Owns reports whether an exchange or queue belongs to Watership.
func (t Topology) Owns(name string) bool { return strings.HasPrefix(name, t.Name(".")) }

// Parking returns the queue for copies of the messages that a queue's route has given up.
// Its name has no prefix, since it belongs to the service, as the queue does.
func (t Topology) Parking(queue string) string { return queue + ".poison" }

const longestQueue = 255 // bytes, of a queue (AMQP 0-9-1 §4.2.5.3)

// ofQueue returns a name that ends with the name of a queue, or with its digest if it is too long.
func ofQueue(prefix, queue string) string {
	if name := prefix + queue; len(name) <= longestQueue {
		return name
	}
	sum := sha256.Sum256([]byte(queue))
	return prefix + hex.EncodeToString(sum[:])
}
