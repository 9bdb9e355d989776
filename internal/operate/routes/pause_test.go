package routes

import (
	"errors"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
)

// A pause needs a reason, and no reason is longer than the HTTP API takes.
func TestReasonsOfPauses(t *testing.T) {
	s := Service{System: systemtest.New(t)}
	for text, want := range map[string]string{
		" ": "expected a reason", strings.Repeat("é", 1001): "the reason has 1001 characters: expected at most 1000", "\xff": "the reason is not UTF-8",
	} {
		d := reason.Decision{Operator: "ann", Reason: text}
		for name, decide := range map[string]func() error{
			"pause":      func() error { return s.Pause(t.Context(), "orders", d) },
			"pause all":  func() error { return s.PauseAll(t.Context(), d) },
			"resume":     func() error { _, err := s.Resume(t.Context(), "orders", d); return err },
			"resume all": func() error { _, err := s.ResumeAll(t.Context(), d); return err },
		} {
			if text == " " && strings.HasPrefix(name, "resume") {
				continue // which needs none
			}
			var input system.InputError
			if err := decide(); !errors.As(err, &input) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}
