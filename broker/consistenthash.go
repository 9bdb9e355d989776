package broker

import (
	"hash/fnv"
	"slices"
	"strconv"
)

// consistentHash is the type of exchanges that share messages out: each goes to one of the
// bindings, by a hash of its routing key, a header or a property
// (https://www.rabbitmq.com/docs/plugins, rabbitmq_consistent_hash_exchange). The key of a
// binding is its weight. Equal messages go to the same binding as long as the bindings stay;
// which one that is differs from RabbitMQ.
const consistentHash = "x-consistent-hash"

const (
	hashHeader   = "hash-header"
	hashProperty = "hash-property"
)

// hashMatcher finds the one binding of an exchange that shares messages out.
type hashMatcher struct {
	header   string // that is hashed; "": see property
	property int    // its place; below 0: the routing key
	all      []*binding
	buckets  []*binding // each binding as often as its weight says
}

func newHashMatcher(args table) *hashMatcher {
	h := &hashMatcher{property: -1}
	if f, there := args.lookup(hashHeader); there {
		h.header, _ = f.text()
	}
	if f, there := args.lookup(hashProperty); there {
		name, _ := f.text()
		h.property = hashedProperties()[name]
	}
	return h
}

func hashedProperties() map[string]int {
	return map[string]int{"correlation_id": propCorrelationID, "message_id": propMessageID, "timestamp": propTimestamp}
}

// validHashArguments returns the error of RabbitMQ for arguments of an exchange.
func validHashArguments(args table) *exception {
	_, byHeader := args.lookup(hashHeader)
	f, byProperty := args.lookup(hashProperty)
	name, _ := f.text()
	switch _, known := hashedProperties()[name]; {
	case byHeader && byProperty:
		return newException(preconditionFailed, "hash-header and hash-property are mutually exclusive")
	case byProperty && !known:
		return newException(preconditionFailed, "Unsupported property: %s", name)
	}
	return nil
}

// validWeight returns the error of RabbitMQ for the key of a binding.
func validWeight(key string) *exception {
	switch weight, err := strconv.Atoi(key); {
	case err != nil:
		return newException(preconditionFailed, "The binding key must be an integer: <<%q>>", key)
	case weight < 1:
		return newException(preconditionFailed, "The binding key must be greater than 0")
	case weight > maxWeight:
		return newException(resourceError, "the weight of a binding is above %d", maxWeight)
	}
	return nil
}

// maxWeight bounds the memory of a binding.
const maxWeight = 1000

func (h *hashMatcher) add(b *binding) {
	h.all = append(h.all, b)
	h.buckets = nil
}

func (h *hashMatcher) remove(b *binding) {
	h.all = slices.DeleteFunc(h.all, func(other *binding) bool { return other == b })
	h.buckets = nil
}

// share fills the buckets, after a change of the bindings. Of several bindings to one queue or exchange the first counts.
func (h *hashMatcher) share() {
	type destination struct {
		queue    *queue
		exchange *exchange
	}
	known := map[destination]bool{}
	for _, b := range h.all {
		to := destination{b.queue, b.target}
		if known[to] {
			continue
		}
		known[to] = true
		weight, _ := strconv.Atoi(b.key)
		for range weight {
			h.buckets = append(h.buckets, b)
		}
	}
}

func (h *hashMatcher) match(key string, m *message, visit func(*binding)) {
	if len(h.all) == 0 || key != m.key() { // the keys of CC do not count
		return
	}
	if h.buckets == nil {
		h.share()
	}
	hash := fnv.New64a()
	_, _ = hash.Write(h.hashed(m))
	visit(h.buckets[jump(hash.Sum64(), len(h.buckets))])
}

// hashed returns the part of a message that decides; all messages without it are equal.
func (h *hashMatcher) hashed(m *message) []byte {
	switch {
	case h.header != "":
		f, _ := m.headers().lookup(h.header)
		return f.raw
	case h.property >= 0:
		return m.properties().values[h.property]
	}
	return []byte(m.key())
}

// jump returns a bucket for a hash. With one bucket more, only messages for the new one move
// (Lamping and Veach, A Fast, Minimal Memory, Consistent Hash Algorithm).
func jump(hash uint64, buckets int) int {
	bucket, next := int64(-1), int64(0)
	for next < int64(buckets) {
		bucket = next
		hash = hash*2862933555777941757 + 1
		next = int64(float64(bucket+1) * (float64(int64(1)<<31) / float64((hash>>33)+1)))
	}
	return int(bucket)
}
