package chart

// SparkBar is a bar of a sparkline of 4 by 24 for each step.
type SparkBar struct{ X, Y, Height int }

// Sparkline returns the bars of the counts of steps, and the greatest count.
func Sparkline(counts []int) (bars []SparkBar, most int) {
	const height = 24
	for _, n := range counts {
		most = max(most, n)
	}
	for i, n := range counts {
		if n > 0 {
			h := max(2, n*height/most)
			bars = append(bars, SparkBar{4 * i, height - h, h})
		}
	}
	return bars, most
}
