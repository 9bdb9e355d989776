package errorgroup

import (
	"cmp"
	"slices"
	"strings"
)

// Former returns the group that versions before Fold gave an error message, which is in stored
// documents: the first line, with every word that has a digit as "#", except names and statuses.
// It stops once the result has limit bytes.
func Former(message string, limit int, names []string) string {
	message, _, _ = strings.Cut(message, "\n")
	var folded strings.Builder
	for before := ""; len(message) > 0 && folded.Len() < limit; {
		word := cmp.Or(leadingName(message, names), formerWord(message))
		switch {
		case word == 0:
			folded.WriteByte(message[0])
			message = message[1:]
			continue
		case formerFolds(message[:word], before, names):
			folded.WriteByte('#')
		default:
			folded.WriteString(message[:word])
		}
		before, message = message[:word], message[word:]
	}
	return strings.ToValidUTF8(folded.String(), "")
}

// formerFolds reports whether Former replaces a word of a message.
func formerFolds(word, before string, names []string) bool {
	const longestStatus = 3
	isStatus := len(word) <= longestStatus && saysStatus(before) && strings.Trim(word, "0123456789") == ""
	return strings.ContainsAny(word, "0123456789") && !isStatus && !slices.Contains(names, word)
}

// saysStatus reports whether a number after the word is a status of HTTP, a process
// or a database. "answered" is the word of Watership's HTTP handler.
func saysStatus(word string) bool {
	return slices.ContainsFunc([]string{"answered", "code", "HTTP", "status"}, func(known string) bool { return strings.EqualFold(word, known) })
}

// leadingName returns the length of the longest name, of one word or several, with
// which the message begins.
func leadingName(message string, names []string) int {
	longest := 0
	for _, name := range names {
		if rest, ok := strings.CutPrefix(message, name); ok && (rest == "" || !inWord(rest[0])) {
			longest = max(longest, len(name))
		}
	}
	return longest
}

func formerWord(s string) int {
	for at := range len(s) {
		fraction := s[at] == '.' && at > 0 && isDigit(s[at-1]) && at+1 < len(s) && isDigit(s[at+1])
		if !fraction && !inWord(s[at]) {
			return at
		}
	}
	return len(s)
}

func inWord(c byte) bool {
	return c == '-' || c == '_' || isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
