package main

import (
	"os"
	"runtime/debug"
)

const (
	gcPercent = 400
	gcWithin  = 512 << 20 // bytes
)

// spendMemory lets the garbage collector run less often than Go's default, which
// takes a quarter of what indexing costs: most of what a message leaves behind is
// gone with its batch. Near gcWithin, and what index.memory allows, it runs as often
// as it must. Who sets GOGC or GOMEMLIMIT (https://go.dev/doc/gc-guide) knows better.
func spendMemory(inFlight int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(gcWithin + 2*inFlight))
	}
}
