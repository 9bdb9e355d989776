package retry

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A message that an operator has postponed is never early, at most a second late, and moves
// a few times only.
func TestSteps(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		postponed := time.Duration(random.Int64N(int64(longestStandardDelay)))
		left, steps := postponed, 0
		for left > 0 {
			left -= Step(left)
			steps++
		}
		if late := -left; late > stepTolerance || steps > 10 {
			t.Fatalf("postponed by %s: %s late after %d steps", postponed, late, steps)
		}
	}
	if got := Step(100 * longestStandardDelay); got != longestStandardDelay {
		t.Errorf("the longest step is %s", got)
	}
	if got := Step(18000 * time.Second); got != 15000*time.Second {
		t.Errorf("the first step to five hours is %s", got)
	}
}
