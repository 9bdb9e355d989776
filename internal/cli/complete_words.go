package cli

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// matching returns the names that continue the typed text, without those that
// a shell could read as more than one plain word: publishers and other logins
// choose ids, errors and names of queues, and bash inserts the common beginning of
// several candidates without quotes, and evaluates that line at the next TAB. before
// is the typed text in front of the name.
func matching(typed, before string, names []string) []string {
	if !isSafeUnquoted(before) {
		return nil
	}
	var found []string
	for _, name := range names {
		if isWord(name) && strings.HasPrefix(before+name, typed) {
			found = append(found, before+name)
		}
	}
	return found
}

// isWord reports whether a shell reads a text as one word without quotes, and a command
// does not read that word as a flag.
func isWord(text string) bool {
	const punctuation = "._:/@+-"
	return text != "" && text[0] != '-' && !strings.ContainsFunc(text, func(r rune) bool { return !isPlain(r, punctuation) })
}

// isSafeUnquoted reports whether a shell reads the beginning of a query or of a list
// the same without the quotes in which it was typed.
func isSafeUnquoted(text string) bool {
	const punctuation = `._:/@+-, ()"`
	return !strings.ContainsFunc(text, func(r rune) bool { return !isPlain(r, punctuation) })
}

func isPlain(r rune, punctuation string) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return true
	}
	return strings.ContainsRune(punctuation, r)
}

// fishCompletion writes cobra's script for fish, in which the arguments before
// the one to complete lose their quotes and are evaluated, with them. A query in
// quotes may have parentheses, which fish would run as a command.
func fishCompletion(cmd *cobra.Command, _ []string) error {
	var script bytes.Buffer
	withoutDescriptions, err := cmd.Flags().GetBool("no-descriptions")
	if err == nil {
		err = cmd.Root().GenFishCompletion(&script, !withoutDescriptions)
	}
	if err != nil {
		return err
	}
	const unquoted, quoted = "$args[2..-1] $lastArg", "$typed $lastArg"
	const quoting = "    set -l typed\n    if set -q args[2]\n        set typed (string escape -- $args[2..-1])\n    end\n"
	before, after, found := strings.Cut(script.String(), unquoted)
	if !found {
		return fmt.Errorf("the script for fish has no %q to quote", unquoted)
	}
	line := strings.LastIndex(before, "\n") + 1
	_, err = fmt.Fprint(cmd.OutOrStdout(), before[:line]+quoting+before[line:]+quoted+after)
	return err
}
