package schemas

import "strings"

const errorGroupLimit = 256 // bytes

// ErrorGroup folds the ids and numbers of an error message, so that failures
// of one kind have one text: every word that has a digit becomes "#", and a number
// with its fraction, or an address of numbers, is one word.
func ErrorGroup(message string) string {
	message, _, _ = strings.Cut(message, "\n")
	var folded strings.Builder
	for len(message) > 0 && folded.Len() < errorGroupLimit {
		word := leadingWord(message)
		switch {
		case word == 0:
			folded.WriteByte(message[0])
			word = 1
		case strings.ContainsAny(message[:word], "0123456789"):
			folded.WriteByte('#')
		default:
			folded.WriteString(message[:word])
		}
		message = message[word:]
	}
	return shorten(strings.ToValidUTF8(folded.String(), ""), errorGroupLimit)
}

func leadingWord(s string) int {
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
