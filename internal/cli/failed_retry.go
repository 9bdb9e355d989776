package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/code"
)

// ofFailures restricts a query to failures; a replay leaves out those that are resolved.
func ofFailures(query string) string {
	if query = strings.TrimSpace(query); query == "" || query == "*" {
		return "action: poisoned"
	}
	return "(" + query + ") and action: poisoned"
}

// selectFailures restricts the replay to failures. A replay to another target does not leave out
// those that are resolved, and would send them again.
func (r *replay) selectFailures() error {
	if !r.toFailedQueue || r.toQueue != "" || r.toExchange != "" {
		return usagef("failed retry sends failures to the queues where they failed: use 'watership replay' for another target, " +
			"which also sends failures that are resolved")
	}
	if words := strings.Fields(r.query); !slices.ContainsFunc(words, func(word string) bool { return !history.IsID(word) }) {
		r.groups = words
	}
	if r.file == "" && r.group == "" {
		r.query = ofFailures(r.query)
	}
	return nil
}

// queryOfGroups returns a query for the failures of groups by their names, or "" if one names no group.
func queryOfGroups(ctx context.Context, sys operation.Via, names []string) (string, error) {
	var queries []string
	for _, name := range names {
		found, err := failures.GetFailureGroup.Call(ctx, sys, failures.GroupInput{Group: name})
		var unknown *failures.NotFoundError
		if errors.As(err, &unknown) || isRefused(err, code.NotFound) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("reading the group %s: %w", name, err)
		}
		queries = append(queries, "("+found.Body.Query+")")
	}
	return strings.Join(queries, " or "), nil
}

// newFailedRetry returns `failed retry`: a replay of failures with other defaults.
func newFailedRetry(from *settings) *cobra.Command {
	r := new(replay)
	cmd := r.command(from)
	cmd.Use, cmd.Short = "retry [QUERY|GROUP...]", "Replay failures: one first, then the rest"
	cmd.Long = `Replay the unresolved failures that match a query, or of some groups by their names in
watership failed, to the queue that failed. One message is sent first: if its consumer
handles it, the rest follows. A terminal prompts in between. The outcome of a single failure
is waited for, too.

It is "replay --to-failed-queue --canary 1" for failures, with the same flags but those of
other targets.`
	cmd.Example = `  watership failed retry 'queue: orders and error.type: timeout'
  watership failed retry k3f7q2xa --reason 'fixed in 1.4.2'
  watership failed retry 'queue: orders' --canary 10 --rate 50 --yes`
	r.failuresAlone = true
	for name, value := range map[string]string{"to-failed-queue": "true", "canary": "1"} {
		flag := cmd.Flags().Lookup(name)
		_ = flag.Value.Set(value) // of the type of the flag
		flag.DefValue = value
	}
	for _, name := range append(shadowOnly(), "shadow", "follow", "order", "on-failure", "to-failed-queue", "to-queue", "to-exchange", "key") {
		cmd.Flags().Lookup(name).Hidden = true
	}
	return cmd
}
