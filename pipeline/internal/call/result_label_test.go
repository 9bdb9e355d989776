package call

import (
	"testing"

	"github.com/watershipmq/watership/retry"
)

// Dashboards and alerts select by these values, whatever the actions are called.
func TestValuesOfTheLabelResult(t *testing.T) {
	for action, want := range map[retry.Action]string{retry.Retry: "retry", retry.Defer: "defer", retry.Poison: "poison"} {
		if got := ResultLabel(action); got != want {
			t.Errorf("%s: got %s, want %s", action, got, want)
		}
	}
}
