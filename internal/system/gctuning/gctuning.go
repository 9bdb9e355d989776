// Package gctuning sets how often the garbage collector runs. Commands and
// benchmarks share it, so that benchmarks measure the settings of the commands.
package gctuning

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const gcPercent = 400

// ReplayLimit is the limit of a replay, in bytes.
const ReplayLimit = 512 << 20

// ServeLimit returns the limit of a server whose indexer has some bytes in flight: a
// server without messages takes 20 MiB.
func ServeLimit(indexing int) int { return 32<<20 + indexing }

// Apply lets the garbage collector run less often than Go's default, as long as the
// process has less memory than limit, in bytes: most of the memory of a message is
// garbage once its batch is done. Near the limit the collector runs as often as it must.
// GOGC and GOMEMLIMIT (https://go.dev/doc/gc-guide) take precedence.
func Apply(limit int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	setLimit(int64(limit))
}

func setLimit(limit int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
}

// Follow applies a limit, and raises it while the live memory leaves no room for garbage,
// until ctx ends. Otherwise the collector would run all the time when messages are larger, or
// more routes have messages in flight, than the limit expects.
func Follow(ctx context.Context, limit int) {
	Apply(limit)
	ticker := time.NewTicker(followInterval)
	defer ticker.Stop()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for current := int64(limit); ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		metrics.Read(live)
		if next := limitFor(int64(limit), int64(live[0].Value.Uint64())); next != current {
			current = next
			setLimit(current)
		}
	}
}

const (
	followInterval = 100 * time.Millisecond
	headroom       = 16 << 20 // bytes
	limitStep      = 8 << 20  // bytes
)

// limitFor returns the limit for live bytes that the last collection found: half as much
// again for garbage, and the headroom. It is a multiple of limitStep, so that it changes
// rarely.
func limitFor(least, live int64) int64 {
	return max(least, (live+live/2+headroom)/limitStep*limitStep)
}
