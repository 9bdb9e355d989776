package eventstore

import (
	"testing"
	"time"
)

// The number of steps never exceeds n, for any span.
func TestRoundStep(t *testing.T) {
	for span := time.Second; span < 20*365*24*time.Hour; span = span * 3 / 2 {
		step := roundStep(span, 24)
		if steps := span/step + 2; steps > 24 {
			t.Errorf("%s in steps of %s are %d", span, step, steps)
		}
	}
}
