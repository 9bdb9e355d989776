package sqlite

import (
	"strings"
	"unicode"
	"unicode/utf8"

	segments "github.com/clipperhouse/uax29/v2/words"
)

// words takes a text apart as Elasticsearch's standard analyzer does: at the word
// boundaries of Unicode text segmentation (UAX #29), in lower case. A Chinese
// character, a Hiragana and an emoji are words by themselves, and what has neither
// letters, digits nor emoji is none
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/analysis-standard-tokenizer.html).
func words(text string) []string {
	var list wordList
	for found := segments.FromString(text); found.Next(); {
		list.add(found.Value())
	}
	return list.end()
}

// wordList is words in order, and the beginning of one in a script that has no spaces
// between words, such as Thai: a run of it is a word.
type wordList struct {
	words []string
	run   strings.Builder
}

func (l *wordList) add(segment string) {
	first, _ := utf8.DecodeRuneInString(segment)
	if isUnspaced(first) {
		l.run.WriteString(segment)
		return
	}
	l.endRun()
	at := strings.IndexFunc(segment, isWord)
	switch {
	case at < 0 && !isFlag(segment):
		return
	case at > 0 && first != '_': // such as a mark that follows a dot
		segment = segment[at:]
	}
	l.keep(segment)
}

func (l *wordList) endRun() {
	if l.run.Len() > 0 {
		l.keep(l.run.String())
		l.run.Reset()
	}
}

func (l *wordList) end() []string {
	l.endRun()
	return l.words
}

// longestWord is where Elasticsearch cuts a word (max_token_length), in UTF-16 code units.
const longestWord = 255

// keep cuts where Elasticsearch does, which looks for a word again behind the cut.
func (l *wordList) keep(word string) {
	for len(word) > longestWord {
		end := longestPart(word)
		l.words = append(l.words, strings.ToLower(word[:end]))
		if word = word[end:]; word == "" || word[0] == '_' {
			continue
		}
		next := strings.IndexFunc(word, isWord)
		if next < 0 {
			return
		}
		word = word[next:]
	}
	if word != "" {
		l.words = append(l.words, strings.ToLower(word))
	}
}

// longestPart is the end of the part of a word that Elasticsearch takes for one.
func longestPart(word string) int {
	units := 0
	for at, r := range word {
		if units++; r > 0xffff {
			units++
		}
		if units > longestWord {
			return at
		}
	}
	return len(word)
}

// isWord says whether a character makes a word of the segment that it is in.
func isWord(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	case unicode.Is(unicode.M, r), r == '\uff9e', r == '\uff9f': // with what they follow, as are the half-width sound marks
		return false
	}
	return unicode.In(r, unicode.L, unicode.Nd, unicode.Nl, unicode.Other_Alphabetic, unicode.Han, unicode.Hiragana, unicode.Katakana) || isEmoji(r)
}

// isUnspaced says whether a character is of a script that has no spaces between words
// (Line_Break=Complex_Context).
func isUnspaced(r rune) bool {
	return r >= '\u0e01' && unicode.In(r, unicode.Thai, unicode.Lao, unicode.Myanmar, unicode.Khmer,
		unicode.Tai_Le, unicode.New_Tai_Lue, unicode.Tai_Tham, unicode.Tai_Viet, unicode.Ahom) && unicode.In(r, unicode.L, unicode.M)
}

// isFlag says whether a segment is two regional indicators.
func isFlag(segment string) bool {
	indicators := 0
	for _, r := range segment {
		if '\U0001f1e6' <= r && r <= '\U0001f1ff' {
			indicators++
		}
	}
	return indicators == 2
}
