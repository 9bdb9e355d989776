package compare

// Period compares counts of failed and handled messages in steps of time. It returns the steps, from
// begin up to end, in which the most failures are in excess; false if none differs from the rest.
// Periods from any step to any other are compared.
func Period(failed, handled []int64) (begin, end int, found bool) {
	n := len(failed)
	failedTo, handledTo := sums(failed), sums(handled)
	var best Factor
	for from := range n {
		for to := from + 1; to <= n && to-from < n; to++ {
			f := Factor{
				Failed:  Share{failedTo[to] - failedTo[from], failedTo[n]},
				Handled: Share{handledTo[to] - handledTo[from], handledTo[n]},
			}
			if f.isLarge() && f.Excess() > best.Excess() {
				best, begin, end = f, from, to
			}
		}
	}
	if best.Failed.With == 0 {
		return 0, 0, false
	}
	return begin, end, chance(best.Failed, best.Handled) <= maxChance/float64(n*(n+1)/2)
}

// sums returns the sums of the counts before each step, and of all of them.
func sums(counts []int64) []int {
	to := make([]int, len(counts)+1)
	for i, count := range counts {
		to[i+1] = to[i] + int(count)
	}
	return to
}
