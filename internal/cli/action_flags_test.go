package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/cli/terminal"
)

// Each command that finds and changes many has the flags of all others, or a reason why not.
func TestActionsHaveTheSameFlags(t *testing.T) {
	flags := []string{"dry-run", "expect", "ids", "operator", "output", "reason", "yes"}
	without := map[string][]string{
		"routes add":    {"ids"},        // it names queues
		"routes remove": {"ids"},        // likewise
		"routes pause":  {"ids", "yes"}, // likewise, and it does not ask
		"routes resume": {"ids", "yes"}, // likewise
		"adopt":         {"ids"},        // it takes in a queue
	}
	for _, name := range []string{
		"replay", "failed retry", "failed discard", "failed resolve", "waiting now", "waiting postpone", "waiting cancel",
		"quarantine rewrite", "routes add", "routes remove", "routes pause", "routes resume", "adopt",
	} {
		cmd, _, err := newRoot(terminal.Streams{}, nil).Find(strings.Fields(name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, flag := range flags {
			if has := cmd.Flags().Lookup(flag) != nil; has == slices.Contains(without[name], flag) {
				t.Errorf("%s has --%s: %t", name, flag, has)
			}
		}
	}
}
