package cli

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"
)

// given is a flag that takes no empty value. Empty would be as if it were not there,
// and so select or reach more than was meant, where a script has --to-queue "$QUEUE"
// and no QUEUE.
type given struct{ text *string }

func addGiven(flags *pflag.FlagSet, text *string, name, usage string) {
	flags.Var(given{text}, name, usage)
}

// Set implements pflag.Value.
func (g given) Set(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("expected a value, or no such flag")
	}
	*g.text = text
	return nil
}

// String implements pflag.Value.
func (g given) String() string { return *g.text }

// Type implements pflag.Value.
func (g given) Type() string { return "string" }
