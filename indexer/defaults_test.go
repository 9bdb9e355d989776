package indexer

import (
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/config"
)

// A forgotten store is an error of Run, and no panic of its goroutines.
func TestRunNeedsAStore(t *testing.T) {
	if err := New(Config{}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "Store") {
		t.Error(err)
	}
}

// TestDefaultsAreDocumented checks that a program of its own and the command start with
// the same limits, which the reference of the configuration documents.
func TestDefaultsAreDocumented(t *testing.T) {
	documented, err := config.Load(config.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	defaults := Config{}.withDefaults()
	if got, want := defaults.Batch, Batch(documented.Index.Batch); got != want {
		t.Errorf("batch %+v, documented %+v", got, want)
	}
	if got, want := defaults.Memory, documented.Index.Memory; got != want {
		t.Errorf("memory %d, documented %d", got, want)
	}
}
