// Package errorgroup gives error messages of one kind one text.
//
// Fold first chooses the part of a message that says what went wrong (text.go, document.go),
// and splits it into tokens (scan.go). Values become "#" (value.go, quoted.go, number.go), while
// words, names from programs and codes stay (vocabulary.go). Then runs of values become one
// (join.go). Each step takes time that is linear in the length of the message.
package errorgroup

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxMessage bounds the message that Fold reads, in bytes. Of a longer one it reads the
	// beginning and the end.
	maxMessage = 16 << 10

	// maxPasses bounds how often Fold folds its result again, until that changes nothing.
	maxPasses = 4
)

// Fold returns the text that error messages of one kind share: what went wrong, without values
// such as ids, numbers, times and addresses, each of which is "#". Names of queues and exchanges
// stay. The result is one line of at most limit bytes of UTF-8, and folding it again changes
// nothing but in rare cases.
func Fold(message string, limit int, names []string) string {
	text := message
	if len(text) > maxMessage {
		text = text[:maxMessage/2] + "\n" + text[len(text)-maxMessage/2:]
	}
	for range maxPasses {
		folded := foldOnce(text, limit, names)
		if folded == text {
			break
		}
		text = folded
	}
	return text
}

func foldOnce(message string, limit int, names []string) string {
	s := scanner{place: place{text: calm(abridge(choose(clean(message), 0)))}, names: names}
	s.scan()
	return shorten(write(join(s.tokens)), limit)
}

const omission = " … "

// shorten leaves out the middle of a long text: its beginning or its end names the error.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	begin := (limit - len(omission)) * 5 / 8
	end := len(text) - (limit - len(omission) - begin)
	for begin > 0 && !utf8.RuneStart(text[begin]) {
		begin--
	}
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end++
	}
	return strings.TrimRight(text[:begin], " ") + omission + strings.TrimLeft(text[end:], " ")
}

// Bounds of a text in brackets, such as a statement of SQL, in bytes.
const (
	longBracket = 160
	keptBracket = 80
)

// abridge leaves out the end of long texts in brackets, which precede the error.
func abridge(text string) string {
	if len(text) < longBracket {
		return text
	}
	var out strings.Builder
	for {
		open := strings.IndexByte(text, '[')
		if open < 0 {
			break
		}
		end := strings.IndexByte(text[open:], ']')
		if end < 0 {
			break
		}
		if end < longBracket {
			out.WriteString(text[:open+end])
		} else {
			kept := open + keptBracket
			for !utf8.RuneStart(text[kept]) {
				kept--
			}
			out.WriteString(strings.TrimRight(text[:kept], " ") + omission)
		}
		text = text[open+end:]
	}
	return out.String() + text
}

// calm returns a text of several words that are all in upper case in lower case.
func calm(text string) string {
	const several = 3
	if strings.ContainsFunc(text, unicode.IsLower) || len(strings.Fields(text)) < several {
		return text
	}
	return strings.ToLower(text)
}
