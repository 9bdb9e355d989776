package cli

import (
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/cli/terminal"
)

// A misspelled subcommand is no query and no argument.
func TestMisspelledSubcommands(t *testing.T) {
	for line, want := range map[string]string{
		"failed resovle k3f7q2xa --reason x": `unknown command "resovle"; did you mean 'watership failed resolve'? To search for the word: watership failed '"resovle"'`,
		"failed lst":                         "did you mean 'watership failed'?",
		"failed list --since 1h":             "did you mean 'watership failed'?",
		"failed Discard":                     "did you mean 'watership failed discard'?",
		"failed disc":                        "did you mean 'watership failed discard'?",
		"failed umnute k3f7q2xa":             "did you mean 'watership failed unmute'?",
		"waiting canecl *":                   "did you mean 'watership waiting cancel'?",
		"waiting list":                       "did you mean 'watership waiting'?",
		"routes puase orders":                `unknown command "puase"; did you mean 'watership routes pause'?`,
		"routes list":                        "did you mean 'watership routes'?",
		"alerts tset on-call":                "did you mean 'watership alerts test'?",
		"stream repaly order-42":             "did you mean 'watership stream replay'?",
		"jobs lsit":                          "did you mean 'watership jobs list'?",
		"config shw":                         "did you mean 'watership config show'?",
		"serach x":                           "did you mean 'watership search'?",
		"discard x":                          "did you mean 'watership failed discard'?",
	} {
		if got := call(t.Context(), strings.NewReader(""), nil, strings.Fields(line)...); got.Code != exitUsage || !strings.Contains(got.Err, want) {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

func TestQueriesAreNoMisspelledSubcommands(t *testing.T) {
	root := newRoot(terminal.Streams{}, nil)
	for _, name := range []string{"failed", "waiting"} {
		cmd, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		for _, query := range [][]string{
			{}, {""}, {"*"}, {"timeout"}, {"reply"}, {`"resovle"`}, {"note: x"}, {"queue:", "orders"}, {"not", "queue:", "orders"}, {"shop", "and", "queue:", "orders"}, {"order-42"}, {"no stock"},
		} {
			if err := cmd.Args(cmd, query); err != nil {
				t.Errorf("%s %q: %v", name, query, err)
			}
		}
	}
}
