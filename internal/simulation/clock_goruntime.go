//go:build goruntime

package simulation

import _ "unsafe" // for go:linkname

// useClock lets the goroutine, and those that it starts from now on, have a wall clock that is ahead by some nanoseconds, and
// returns the one before; nil is the right time. Package goruntime adds it to the runtime.
//
//go:linkname useClock runtime.useClock
func useClock(ahead *int64) (before *int64)
