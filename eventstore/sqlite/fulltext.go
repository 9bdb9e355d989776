package sqlite

import (
	"strings"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite/internal/analyzer"
)

// The table text stores words with spaces between them. Its tokenizer splits at
// white space only, see schema.sql.

// joinWords makes a text for the table, or a phrase to search it for.
func joinWords(words []string) string { return strings.Join(words, " ") }

// anyWord is true where a text has any of the words.
func anyWord(column, text string) condition {
	list := analyzer.Words(text)
	for i, word := range list {
		list[i] = ftsString(word)
	}
	return matchText(column, strings.Join(list, " OR "))
}

// phrase is true where a text has the words in this order.
func phrase(column, text string) condition {
	list := analyzer.Words(text)
	if len(list) == 0 {
		return where("FALSE")
	}
	return matchText(column, ftsString(joinWords(list)))
}

func wordPrefix(column, prefix string) condition { return matchText(column, ftsString(prefix)+"*") }

// ftsString is a string in the query syntax of FTS5
// (https://www.sqlite.org/fts5.html#fts5_strings).
func ftsString(words string) string { return `"` + strings.ReplaceAll(words, `"`, `""`) + `"` }

func matchText(column, expression string) condition {
	if expression == "" {
		return where("FALSE")
	}
	return inSubquery("SELECT rowid AS n FROM text WHERE text MATCH ? AND rowid >= ?", quoteName(column)+" : ("+expression+")", lowestNumber{})
}

// wordPattern is true where a text has a word of the pattern. It scans all words of
// the table, except for a pattern that is a prefix.
func wordPattern(column string, pattern kql.Pattern) condition {
	lower := make(kql.Pattern, len(pattern))
	for i, part := range pattern {
		if strings.ContainsFunc(part, analyzer.IsSeparator) {
			return where("FALSE") // words have no separators
		}
		lower[i] = strings.ToLower(part)
	}
	if prefix, ok := lower.Prefix(); ok && prefix != "" {
		return wordPrefix(column, prefix)
	}
	return wordWhere(column, ofPattern(lower))
}

func wordWhere(column string, satisfies predicate) condition {
	word := satisfies.test("term")
	return inSubquery("SELECT doc AS n FROM word WHERE col = ? AND "+word.sql, append([]any{column}, word.args...)...)
}
