package retry

import "time"

// StandardDelays lists the delays that have a queue though no policy names them,
// for delays that are known only at run time: 1, 1.5, 2, 3, 5 and 7 times the
// powers of ten from 100 ms, up to a day.
func StandardDelays() []time.Duration {
	var delays []time.Duration
	for power := 100 * time.Millisecond; power < longestStandardDelay; power *= 10 {
		for _, tenths := range []time.Duration{10, 15, 20, 30, 50, 70} {
			if delay := power / 10 * tenths; delay < longestStandardDelay {
				delays = append(delays, delay)
			}
		}
	}
	return append(delays, longestStandardDelay)
}

const longestStandardDelay = 24 * time.Hour

// roundUp returns the shortest standard delay that is at least d, or the longest.
func roundUp(d time.Duration) time.Duration {
	for _, delay := range StandardDelays() {
		if delay >= d {
			return delay
		}
	}
	return longestStandardDelay
}
