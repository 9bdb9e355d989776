package sqlite

import (
	"slices"
	"strings"
	"unicode"

	"github.com/watershipmq/watership/schemas/query"
)

// words takes a text apart as the table text does.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return !isWord(r) })
}

// isWord is the rule of the tokenizer unicode61, and `_`
// (https://www.sqlite.org/fts5.html#unicode61_tokenizer).
func isWord(r rune) bool {
	return r == '_' || unicode.In(r, unicode.L, unicode.N, unicode.M, unicode.Co)
}

// anyWord is true where a text has any of the words.
func anyWord(column, text string) condition {
	return wordsIn(column, words(text), func(words []string) string { return `"` + strings.Join(words, `" OR "`) + `"` })
}

// phrase is true where a text has the words in this order.
func phrase(column, text string) condition {
	return wordsIn(column, words(text), func(words []string) string { return `"` + strings.Join(words, " ") + `"` })
}

func wordBeginning(column, prefix string) condition {
	return wordsIn(column, []string{prefix}, func(words []string) string { return `"` + words[0] + `"*` })
}

// wordsIn asks for words in the language of FTS5, where nothing in quotes that
// consists of letters and digits can mean anything else.
func wordsIn(column string, words []string, ask func([]string) string) condition {
	if len(words) == 0 {
		return where("FALSE")
	}
	return listed("SELECT rowid AS n FROM text WHERE text MATCH ? AND rowid >= ?", name(column)+" : ("+ask(words)+")", lowest{})
}

// wordPattern is true where a text has a word of the pattern. But for one that
// only ends in a wildcard it goes through all words that there are.
func wordPattern(column string, pattern query.Pattern) condition {
	lower := make(query.Pattern, len(pattern))
	for i, part := range pattern {
		if strings.ContainsFunc(part, func(r rune) bool { return !isWord(r) }) {
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
