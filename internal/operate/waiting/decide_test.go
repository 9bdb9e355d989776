package waiting

import (
	"errors"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
)

// A decision about waiting messages needs a reason of a length that the HTTP API takes, too.
func TestDecisionsHaveReasons(t *testing.T) {
	sys := systemtest.New(t)
	for text, want := range map[string]string{
		" ": "expected a reason", strings.Repeat("é", 1001): "the reason has 1001 characters: expected at most 1000", "\xff": "the reason is not UTF-8",
	} {
		_, _, err := Decide(t.Context(), sys, Decision{Action: Cancel, Reason: text}, nil)
		var input system.InputError
		if !errors.As(err, &input) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
