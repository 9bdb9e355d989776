// Package memory says how much of it a process may spend to save the time of
// collecting garbage. Commands and benchmarks share it, so that what is measured
// is what runs.
package memory

import (
	"os"
	"runtime/debug"
)

const (
	gcPercent = 400
	gcWithin  = 512 << 20 // bytes
)

// Spend lets the garbage collector run less often than Go's default, which takes
// a quarter of what indexing costs and a tenth of a replay: most of what a message
// leaves behind is gone with its batch. Near half a GiB, and twice the bytes that
// may be in flight, it runs as often as it must. Who sets GOGC or GOMEMLIMIT
// (https://go.dev/doc/gc-guide) knows better.
func Spend(inFlight int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(gcWithin + 2*inFlight))
	}
}
