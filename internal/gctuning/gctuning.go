// Package gctuning sets how often the garbage collector runs. Commands and
// benchmarks share it, so that benchmarks measure the settings of the commands.
package gctuning

import (
	"os"
	"runtime/debug"
)

const (
	gcPercent  = 400
	baseMemory = 512 << 20 // bytes
)

// Apply lets the garbage collector run less often than Go's default, which costs a
// quarter of the CPU time of indexing and a tenth of a replay: most of the memory
// of a message is garbage once its batch is done. Near half a GiB plus twice the
// bytes in flight, the collector runs as often as it must. GOGC and GOMEMLIMIT
// (https://go.dev/doc/gc-guide) take precedence.
func Apply(inFlight int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(baseMemory + 2*inFlight))
	}
}
