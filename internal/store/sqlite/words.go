package sqlite

import (
	"slices"
	"strings"

	"github.com/watershipmq/watership/schemas/query"
)

// The table text is given words with spaces between them, and its tokenizer takes
// everything else for a part of a word: see schema.sql.

// spaced is a text for the table, or a phrase that it is asked for.
func spaced(words []string) string { return strings.Join(words, " ") }

// isSeparator says whether a character is in no word for the table's tokenizer.
func isSeparator(r rune) bool { return r <= ' ' || r == '\x7f' }

// anyWord is true where a text has any of the words.
func anyWord(column, text string) condition {
	list := words(text)
	for i, word := range list {
		list[i] = quoted(word)
	}
	return wordsIn(column, strings.Join(list, " OR "))
}

// phrase is true where a text has the words in this order.
func phrase(column, text string) condition {
	list := words(text)
	if len(list) == 0 {
		return where("FALSE")
	}
	return wordsIn(column, quoted(spaced(list)))
}

func wordBeginning(column, prefix string) condition { return wordsIn(column, quoted(prefix)+"*") }

// quoted is words in the language of FTS5
// (https://www.sqlite.org/fts5.html#fts5_strings).
func quoted(words string) string { return `"` + strings.ReplaceAll(words, `"`, `""`) + `"` }

func wordsIn(column, asked string) condition {
	if asked == "" {
		return where("FALSE")
	}
	return listed("SELECT rowid AS n FROM text WHERE text MATCH ? AND rowid >= ?", name(column)+" : ("+asked+")", lowest{})
}

// wordPattern is true where a text has a word of the pattern. But for one that
// only ends in a wildcard it goes through all words that there are.
func wordPattern(column string, pattern query.Pattern) condition {
	lower := make(query.Pattern, len(pattern))
	for i, part := range pattern {
		if strings.ContainsFunc(part, isSeparator) {
			return where("FALSE") // no word has this
		}
		lower[i] = strings.ToLower(part)
	}
	if prefix, ok := lower.Prefix(); ok && prefix != "" {
		return wordBeginning(column, prefix)
	}
	return wordTested(column, matching(lower))
}

func wordTested(column string, passes test) condition {
	word := passes("term")
	return listed("SELECT doc AS n FROM word WHERE col = ? AND "+word.sql, append([]any{column}, word.args...)...)
}

// pieces takes a pattern apart at its spaces, as Elasticsearch's query_string
// does, which Kibana has look for patterns in texts: `conn* out` is any of two.
func pieces(pattern query.Pattern) []query.Pattern {
	var list []query.Pattern
	piece := query.Pattern{}
	for _, part := range pattern {
		texts := strings.Split(strings.Map(plainSpace, part), " ")
		piece = append(piece, texts[0])
		for _, next := range texts[1:] {
			list = append(list, piece)
			piece = query.Pattern{next}
		}
	}
	list = append(list, piece)
	return slices.DeleteFunc(list, func(p query.Pattern) bool { return !p.Wild() && p[0] == "" })
}

// plainSpace is the white space of query_string.
func plainSpace(r rune) rune {
	if strings.ContainsRune("\t\n\r\u3000", r) {
		return ' '
	}
	return r
}
