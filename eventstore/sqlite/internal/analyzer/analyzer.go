// Package analyzer makes the words that the SQLite store indexes of texts and of keywords.
// Their indexes split at white space and control characters only.
package analyzer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	segments "github.com/clipperhouse/uax29/v2/words"
)

// Words splits a text as Elasticsearch's standard analyzer does: at the word
// boundaries of Unicode text segmentation (UAX #29), in lower case. A Chinese
// character, a Hiragana and an emoji are words by themselves. A segment without
// letters, digits and emoji is no word
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/analysis-standard-tokenizer.html).
func Words(text string) []string {
	var list wordList
	for found := segments.FromString(text); found.Next(); {
		list.add(found.Value())
	}
	return list.finish()
}

// wordList collects words in order. run buffers segments of a script that has no
// spaces between words, such as Thai: a whole run of it is one word.
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
	case at > 0 && first != '_': // such as a mark after a dot
		segment = segment[at:]
	}
	l.append(segment)
}

func (l *wordList) endRun() {
	if l.run.Len() > 0 {
		l.append(l.run.String())
		l.run.Reset()
	}
}

func (l *wordList) finish() []string {
	l.endRun()
	return l.words
}

// maxWordLength is Elasticsearch's max_token_length, in UTF-16 code units.
const maxWordLength = 255

// append cuts a long word as Elasticsearch does, which skips to the next letter or
// digit after each cut.
func (l *wordList) append(word string) {
	for len(word) > maxWordLength {
		end := firstPartLength(word)
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

// firstPartLength returns the length of the first part of a long word, in bytes.
func firstPartLength(word string) int {
	units := 0
	for at, r := range word {
		if units++; r > 0xffff {
			units++
		}
		if units > maxWordLength {
			return at
		}
	}
	return len(word)
}

// isWord reports whether a character makes its segment a word.
func isWord(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	case unicode.Is(unicode.M, r), r == '\uff9e', r == '\uff9f': // marks, half-width sound marks included, belong to the letter before
		return false
	}
	return unicode.In(r, unicode.L, unicode.Nd, unicode.Nl, unicode.Other_Alphabetic, unicode.Han, unicode.Hiragana, unicode.Katakana) || isEmoji(r)
}

// isUnspaced reports whether a character is of a script without spaces between words
// (Line_Break=Complex_Context).
func isUnspaced(r rune) bool {
	return r >= '\u0e01' && unicode.In(r, unicode.Thai, unicode.Lao, unicode.Myanmar, unicode.Khmer,
		unicode.Tai_Le, unicode.New_Tai_Lue, unicode.Tai_Tham, unicode.Tai_Viet, unicode.Ahom) && unicode.In(r, unicode.L, unicode.M)
}

// isFlag reports whether a segment is two regional indicators.
func isFlag(segment string) bool {
	indicators := 0
	for _, r := range segment {
		if '\U0001f1e6' <= r && r <= '\U0001f1ff' {
			indicators++
		}
	}
	return indicators == 2
}
