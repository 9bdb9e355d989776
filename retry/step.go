package retry

import "time"

// stepTolerance is how much later than postponed an attempt may be.
const stepTolerance = time.Second

// Step returns the standard delay that a message waits next, of those it waits one after
// another until a time in d: the last ends at that time or up to a second later.
func Step(d time.Duration) time.Duration {
	if up := roundUp(d); up >= d && up-d <= stepTolerance {
		return up
	}
	step := StandardDelays()[0]
	for _, delay := range StandardDelays() {
		if delay <= d {
			step = delay
		}
	}
	return step
}
