package schemas

import "strings"

const errorGroupLimit = 256 // bytes

// ErrorGroup folds the ids and numbers of an error message, so that failures
// of one kind have one text: every word that has a digit becomes "#".
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
	end := strings.IndexFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if end < 0 {
		return len(s)
	}
	return end
}
