package analyzer

import "strings"

// IsSeparator reports whether the indexes split at a character.
func IsSeparator(r rune) bool { return r <= ' ' || r == '\x7f' }

// lowest is what escapes the character 0. The characters from it on are escaped by none.
const lowest = '['

// Keyword makes one word of a keyword. It escapes the characters at which the index would
// split the word, and upper case, which the index would ignore. Words have the order of
// their keywords, so that ranges and prefixes of keywords are ranges of words: an escaped
// character follows the lowest one of its group.
func Keyword(value string) string {
	if strings.IndexFunc(value, isEscaped) < 0 {
		return value
	}
	var word strings.Builder
	word.Grow(len(value) + len(value)/4)
	for i := range len(value) {
		switch c := value[i]; {
		case c <= '!':
			word.Write([]byte{'!', c + lowest})
		case c >= '@' && c <= 'Z':
			word.Write([]byte{'@', c + 'a' - 'A'})
		case c == '~' || c == 0x7f:
			word.Write([]byte{'~', c - lowest})
		default:
			word.WriteByte(c)
		}
	}
	return word.String()
}

func isEscaped(r rune) bool {
	return r <= '!' || r >= '@' && r <= 'Z' || r == '~' || r == 0x7f
}

// KeywordOf returns the keyword of a word.
func KeywordOf(word string) string {
	if !strings.ContainsAny(word, "!@~") {
		return word
	}
	value := make([]byte, 0, len(word))
	for i := 0; i < len(word); i++ {
		if c := word[i]; (c == '!' || c == '@' || c == '~') && i+1 < len(word) {
			i++
			value = append(value, unescapeByte(c, word[i]))
			continue
		}
		value = append(value, word[i])
	}
	return string(value)
}

func unescapeByte(group, c byte) byte {
	switch group {
	case '!':
		return c - lowest
	case '@':
		return c - ('a' - 'A')
	}
	return c + lowest
}
