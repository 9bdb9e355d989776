// Package sizing estimates the needs of a traffic of messages: cores of Watership, RabbitMQ
// and Elasticsearch, disk space and shards. docs/sizing.md has the assumptions.
package sizing

import (
	"math"
	"time"
)

// Traffic is the traffic of a system.
type Traffic struct {
	Peak    float64 `json:"peak"`    // messages a second in the busiest minute
	Daily   float64 `json:"daily"`   // messages a day
	Size    float64 `json:"size"`    // bytes of a body, on average
	Handled float64 `json:"handled"` // messages that a handler of Watership gets, for each that is published
}

// Times returns a multiple of the traffic.
func (t Traffic) Times(n float64) Traffic {
	t.Peak, t.Daily = n*t.Peak, n*t.Daily
	return t
}

// Plan is the estimate for a traffic.
type Plan struct {
	Serve         float64 `json:"serve_cores"` // at the peak
	Broker        float64 `json:"broker_cores"`
	Store         float64 `json:"store_cores"`
	DiskADay      float64 `json:"disk_a_day"`    // bytes, of one copy
	Disk          float64 `json:"disk"`          // bytes in the retention, with replicas
	Indices       int     `json:"indices"`       // at once
	Shards        int     `json:"shards"`        // of all indices, with replicas
	WriteShards   int     `json:"write_shards"`  // to which messages are written at a time
	Installations int     `json:"installations"` // of Watership: each has one queue of recorded messages
}

// Settings are the settings of the store.
type Settings struct {
	Retention time.Duration // of published and handled messages; 0: forever, which is planned as a year
	Replicas  int
}

// costs are the costs of one message whose body has no bytes, and of each KiB.
type costs struct{ base, kib cost }

// cost has CPU times in microseconds, and bytes on disk.
type cost struct{ serve, broker, store, disk float64 }

func (c cost) plus(d cost, times float64) cost {
	return cost{c.serve + times*d.serve, c.broker + times*d.broker, c.store + times*d.store, c.disk + times*d.disk}
}

// costsOf returns the measured costs of a message that is recorded, and of one that is handled
// in addition. TestSoakTraffic of internal/cli measures them.
func costsOf() (recorded, handled costs) {
	recorded = costs{base: cost{31, 114, 30, 40}, kib: cost{7.6, 7.2, 256, 1209}}
	handled = costs{base: cost{253, 200, 142, 210}, kib: cost{0, 0, 5, 1}}
	return recorded, handled
}

const (
	// use is the part of a core that is planned: the rest is for peaks within a minute, catching
	// up after an outage, searches, and garbage collection under load.
	use = 0.5

	day = 24 * time.Hour
	// shardSize is the size in bytes at which Elasticsearch begins another index of a data stream,
	// and queueRate the number of messages a second that one queue and its consumer take
	// (docs/benchmarks.md, "drain and discard", with room).
	shardSize = 50e9
	queueRate = 20_000

	// coresOfANode is the number of cores of a node of Elasticsearch: a shard is on one node.
	coresOfANode = 16
)

// New returns the estimate for a traffic.
func New(t Traffic, s Settings) Plan {
	recorded, handled := costsOf()
	kib := t.Size / 1024
	each := recorded.base.plus(recorded.kib, kib).plus(handled.base, t.Handled).plus(handled.kib, kib*t.Handled)
	cores := func(microseconds float64) float64 { return t.Peak * microseconds / 1e6 / use }
	p := Plan{Serve: cores(each.serve), Broker: cores(each.broker), Store: cores(each.store), DiskADay: t.Daily * each.disk}
	days := s.Retention.Hours() / 24
	if s.Retention <= 0 {
		days = 365
	}
	kept := p.DiskADay * days
	p.Disk = kept * float64(1+s.Replicas)
	p.WriteShards = max(1, int(math.Ceil(p.Store/coresOfANode)))
	p.Installations = max(1, int(math.Ceil(t.Peak/queueRate)))
	bySize := int(math.Ceil(kept / shardSize / float64(p.WriteShards)))
	byAge := int(math.Ceil(days / (rolloverAge(s.Retention).Hours() / 24)))
	p.Indices = max(bySize, byAge) + 1 // the one that is written
	p.Shards = p.Indices * p.WriteShards * (1 + s.Replicas)
	return p
}

// rolloverAge is the age at which Elasticsearch begins another index of a data stream with
// a retention (https://www.elastic.co/docs/manage-data/lifecycle/data-stream).
func rolloverAge(retention time.Duration) time.Duration {
	switch {
	case retention <= 0 || retention > 90*day:
		return 30 * day
	case retention > 14*day:
		return 7 * day
	case retention > day:
		return day
	}
	return time.Hour
}
