package errorgroup

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const longestQuoted = 400 // bytes

// quote reads a text in quotes, of which the closing one is any of some characters. Names of
// programs stay, other texts are values.
func (s *scanner) quote(rest, open, closing string) {
	content, n, is := s.quotedText(rest, open, closing)
	if !is {
		s.add(punct, len(open), plainQuote(open))
		return
	}
	if content == "" || strings.Trim(content, folded) == "" {
		s.add(punct, n, "'"+content+"'")
		return
	}
	switch s.judge(content) {
	case keepQuoted:
		s.add(punct, len(open), "'")
		s.add(word, len(content), foldLongDigits(content))
		s.add(punct, n-len(open)-len(content), "'")
	case readQuoted: // a sentence
		s.add(punct, len(open), plainQuote(open))
	default:
		s.add(value, n, "'"+folded+"'")
	}
}

func plainQuote(quote string) string {
	if quote == "`" {
		return "'"
	}
	return quote
}

// quotedText returns the text in the quotes with which a text begins, and the length with both.
// An apostrophe is no quote.
func (s *scanner) quotedText(rest, open, closing string) (content string, n int, is bool) {
	before, _ := utf8.DecodeLastRuneInString(s.text[:s.at])
	if s.at > 0 && (unicode.IsLetter(before) || unicode.IsDigit(before)) && open != "“" && open != "「" {
		return "", 0, false
	}
	inner := rest[len(open):min(len(rest), longestQuoted)]
	for at := 0; at < len(inner); {
		end := strings.IndexAny(inner[at:], closing+"\n")
		if open == "`" && end >= 0 {
			end = strings.IndexAny(inner[at:], "`'\n") // as in `name'
		}
		if end < 0 || inner[at+end] == '\n' {
			return "", 0, false
		}
		end += at
		_, size := utf8.DecodeRuneInString(inner[end:])
		next, _ := utf8.DecodeRuneInString(rest[len(open)+end+size:])
		if isClear := inner[end] >= utf8.RuneSelf && open != "‘" && open != "’"; isClear || !unicode.IsLetter(next) && !unicode.IsDigit(next) || next == utf8.RuneError {
			return inner[:end], len(open) + end + size, true
		}
		at = end + size
	}
	return "", 0, false
}

type judgement int

const (
	foldQuoted judgement = iota
	keepQuoted
	readQuoted
)

// judge distinguishes a name of a program from a value, by its form and by the words before it.
func (s *scanner) judge(content string) judgement {
	fields := strings.Fields(content)
	switch {
	case len(fields) == 0:
		return keepQuoted
	case len(fields) > 1:
		return judgeText(content, fields)
	case slices.Contains(s.names, content):
		return keepQuoted
	case emailLength(content) > 0:
		return foldQuoted
	case urlLength(content) > 0:
		return readQuoted
	case s.isNamed():
		if isHex(content) {
			return foldQuoted
		}
		return keepQuoted
	case s.isValued():
		return foldQuoted
	}
	hasDigit, hasLetter := false, false
	for _, r := range content {
		switch {
		case r >= utf8.RuneSelf:
			return foldQuoted
		case isDigit(byte(r)):
			hasDigit = true
		case isLetter(byte(r)):
			hasLetter = true
		}
	}
	switch {
	case !hasLetter && !hasDigit:
		return keepQuoted // such as '{'
	case hasDigit && len(content) > 2 && isTechnical(content):
		return keepQuoted
	case hasDigit, isHex(content), isMixed(content):
		return foldQuoted
	case isCapitals(content):
		return foldQuoted
	case strings.ContainsAny(content, "/\\") && !strings.HasPrefix(content, "/") && strings.Contains(content, "."):
		return keepQuoted
	case strings.HasPrefix(content, "/"):
		return readQuoted
	case plainCase(content) != content: // a name of a person, or a word of a type with a single hump
		return foldQuoted
	}
	return keepQuoted
}

// judgeText judges a text of several words. Long ones, and those in lower case, are sentences.
func judgeText(content string, fields []string) judgement {
	const few = 5
	if len(fields) >= few {
		return readQuoted
	}
	for _, field := range fields {
		first, _ := utf8.DecodeRuneInString(field)
		if unicode.IsUpper(first) || strings.ContainsAny(field, "0123456789@") || first >= utf8.RuneSelf {
			return foldQuoted
		}
	}
	return readQuoted
}

// isNamed reports whether the words before say that a name of a program follows.
func (p *place) isNamed() bool {
	if strings.Trim(p.between(), " :=([`'\"") != "" {
		return false
	}
	before := p.words[0]
	return nameNouns[before] || nameNouns[strings.TrimSuffix(before, "s")] || (before == "named" || before == "called") ||
		strings.HasSuffix(before, "keyerror") || strings.HasSuffix(before, "attributeerror") || (before == "reading" || before == "setting") && p.words[1] != ""
}

// isValued reports whether the words before say that a value follows, which people or other
// systems gave.
func (p *place) isValued() bool {
	if valueNouns[p.words[0]] {
		return true
	}
	return slices.ContainsFunc(p.words[:], func(w string) bool { return inputWords[w] })
}

// followsNoun reports whether the word before says that a value follows at once.
func (p *place) followsNoun() bool {
	between := p.between()
	return between == " " && valueNouns[p.words[0]] || p.followsGoods(between)
}

// followsGoods reports whether the word before says that the value is the name of goods.
func (p *place) followsGoods(between string) bool {
	return (between == " " || between == ": " || between == "=") && goods[p.words[0]]
}
