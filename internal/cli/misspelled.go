package cli

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// queryArgs accepts a query, unless it begins with a misspelled subcommand.
func queryArgs(cmd *cobra.Command, args []string) error {
	if meant := misspelled(cmd, args); meant != "" {
		return usagef("unknown command %q; did you mean '%s'? To search for the word: %s '\"%[1]s\"'", args[0], meant, cmd.CommandPath())
	}
	return nil
}

// misspelled returns the command that was probably meant if the first argument is not one of
// the subcommands, but close to one; "" otherwise, or for a part of a query.
func misspelled(cmd *cobra.Command, args []string) string {
	if len(args) == 0 || !regexp.MustCompile(`^[A-Za-z-]+$`).MatchString(args[0]) || isOperator(args[0]) || len(args) > 1 && isOperator(args[1]) {
		return ""
	}
	word, meant, least := strings.ToLower(args[0]), "", 3
	compare := func(name, path string) {
		distance := editDistance(word, name)
		if len(word) >= 3 && strings.HasPrefix(name, word) {
			distance = 0
		}
		if distance < least && (distance < 2 || len(name) > 5) { // more would match many words of five letters
			meant, least = path, distance
		}
	}
	listed := !cmd.HasSubCommands() || !cmd.HasParent() // others either have the subcommand list, or list by themselves
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			compare(sub.Name(), sub.CommandPath())
			listed = listed || sub.Name() == "list"
		}
	}
	if !listed {
		compare("list", cmd.CommandPath())
	}
	return meant
}

// isOperator reports whether a word of a query combines others.
func isOperator(word string) bool {
	return slices.Contains([]string{"and", "or", "not"}, strings.ToLower(word))
}

// editDistance counts the letters to insert, remove, replace or swap with the next one that make
// one word of another.
func editDistance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
