package retry

import "time"

// Ladder lists the delays that have a queue though no policy names them, for
// waits that are known only at run time: 1, 1.5, 2, 3, 5 and 7 times the
// powers of ten from 100 ms, up to a day.
func Ladder() []time.Duration {
	var rungs []time.Duration
	for power := 100 * time.Millisecond; power < maxRung; power *= 10 {
		for _, tenths := range []time.Duration{10, 15, 20, 30, 50, 70} {
			if rung := power / 10 * tenths; rung < maxRung {
				rungs = append(rungs, rung)
			}
		}
	}
	return append(rungs, maxRung)
}

const maxRung = 24 * time.Hour

// roundUp is the shortest rung that is not shorter than d, or the longest rung.
func roundUp(d time.Duration) time.Duration {
	for _, rung := range Ladder() {
		if rung >= d {
			return rung
		}
	}
	return maxRung
}
