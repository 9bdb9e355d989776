package topology

import (
	"slices"
	"time"

	"github.com/watershipmq/watership/retry"
)

// DelayWithQueue returns a delay that has a queue, one of declared or a standard delay, or else
// the first of several that a message waits.
func DelayWithQueue(declared []time.Duration, delay time.Duration) time.Duration {
	if slices.Contains(declared, delay) || slices.Contains(retry.StandardDelays(), delay) {
		return delay
	}
	return retry.Step(delay)
}

// AlternativeDelay returns the shortest delay that is longer than the given one, or else
// the longest.
func AlternativeDelay(others []time.Duration, than time.Duration) (other time.Duration, found bool) {
	others = slices.DeleteFunc(slices.Sorted(slices.Values(others)), func(d time.Duration) bool { return d == than })
	if len(others) == 0 {
		return 0, false
	}
	i, _ := slices.BinarySearch(others, than)
	return others[min(i, len(others)-1)], true
}
