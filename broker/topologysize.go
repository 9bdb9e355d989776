package broker

import "strconv"

// Estimated memory of each object in addition to names, keys and arguments.
const (
	exchangeOverhead = 1024
	queueOverhead    = 1024
	bindingOverhead  = 512
	consumerOverhead = 512
	policyOverhead   = 1024
	wordOverhead     = 256 // of a topic pattern
	headerOverhead   = 64  // of a headers exchange's pattern
	bucketOverhead   = 8   // of the weight of an exchange that hashes
)

// reserveTopology counts the bytes of a new object, or returns an error where they
// exceed the limit.
func (v *vhost) reserveTopology(bytes int64) *exception {
	if v.topologyBytes+bytes > v.limits.Topology {
		return newException(resourceError, "topology limit in vhost '%s' (%d bytes) is reached", v.name, v.limits.Topology)
	}
	v.topologyBytes += bytes
	return nil
}

func (v *vhost) releaseTopology(bytes int64) { v.topologyBytes -= bytes }

func (x *exchange) bytes() int64 { return exchangeOverhead + int64(len(x.name)+len(x.args)) }

func (q *queue) bytes() int64 { return queueOverhead + int64(len(q.name)+len(q.args)) }

func (p *policy) bytes() int64 {
	return policyOverhead + int64(len(p.name)+len(p.pattern)+len(p.arguments)+len(p.alternate))
}

func (c *consumer) bytes() int64 { return consumerOverhead + int64(len(c.tag)) }

// bytes counts the arguments twice, as they are a part of the identity, too, and all
// words of a pattern, also those that other bindings share.
func (b *binding) bytes() int64 {
	bytes := bindingOverhead + int64(len(b.key)+2*len(b.args))
	switch b.source.kind {
	case "topic":
		bytes += int64(wordOverhead * len(topicWords(b.key)))
	case consistentHash:
		weight, _ := strconv.Atoi(b.key)
		bytes += int64(bucketOverhead * weight)
	case "headers":
		for range b.args.fields() {
			bytes += headerOverhead
		}
	}
	return bytes
}
