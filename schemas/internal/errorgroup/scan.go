package errorgroup

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is the kind of a token.
type kind byte

const (
	space kind = iota
	word
	value // was replaced
	punct
)

type token struct {
	kind kind
	text string
}

const folded = "#"

// scanner splits a text into tokens.
type scanner struct {
	place
	names  []string
	tokens []token
}

// place is a place in a text, with the words before it.
type place struct {
	text  string
	at    int
	words [6]string // the latest ones, in lower case, the newest first
	since int       // place in text where the newest word ends
}

// add appends a token of the next n bytes, as they are or with another text.
func (s *scanner) add(k kind, n int, text string) {
	if k == space && (len(s.tokens) == 0 || s.tokens[len(s.tokens)-1].kind == space) {
		s.at += n
		return
	}
	if k == word {
		copy(s.words[1:], s.words[:])
		s.words[0], s.since = strings.ToLower(text), s.at+n
	}
	s.tokens = append(s.tokens, token{k, text})
	s.at += n
}

func (s *scanner) fold(n int) { s.add(value, n, folded) }

// scan reads the text.
func (s *scanner) scan() {
	s.tokens = make([]token, 0, min(len(s.text)/3+4, 256))
	for s.at < len(s.text) {
		s.next()
	}
}

func (s *scanner) next() {
	rest := s.text[s.at:]
	atWord := s.at == 0 || !inWord(s.text[s.at-1])
	if atWord && len(s.names) > 0 {
		if n := leadingName(rest, s.names); n > 0 {
			s.add(word, n, rest[:n])
			return
		}
	}
	c := rest[0]
	switch {
	case c == ' ' || c == '\n' || c == '\t':
		s.add(space, 1, " ")
	case c >= utf8.RuneSelf:
		s.unicode(rest)
	case c == '"' || c == '\'' || c == '`':
		s.quote(rest, string(c), string(c))
	case strings.HasPrefix(rest, foldedAddress):
		s.add(value, len(foldedAddress), foldedAddress)
	case c == '#':
		s.fold(1)
	case isDigit(c) || isLetter(c):
		s.alphanumeric(rest)
	case c == ':' && s.colons(rest):
	case c == '/' && atWord && s.path(rest):
	case (c == '-' || c == '+') && len(rest) > 1 && isDigit(rest[1]) && (s.at == 0 || strings.IndexByte(" (=[:,<>", s.text[s.at-1]) >= 0):
		if n := s.keptSigned(rest); n > 0 {
			s.add(word, n, rest[:n])
			return
		}
		s.at++
		s.next()
	case c == ')' && strings.HasPrefix(rest, ")=("):
		s.add(punct, 3, ")=(")
		if end := strings.IndexByte(s.text[s.at:min(len(s.text), s.at+200)], ')'); end > 0 {
			s.fold(end)
		}
	case c == '=' && s.assignment(rest):
	default:
		s.add(punct, 1, rest[:1])
	}
}

// unicode reads a token that does not begin with ASCII.
func (s *scanner) unicode(rest string) {
	r, size := utf8.DecodeRuneInString(rest)
	switch {
	case unicode.IsSpace(r):
		s.add(space, size, " ")
	case unicode.IsDigit(r):
		s.fold(prefix(rest, func(r rune) bool { return unicode.IsDigit(r) || r == 0x066b || r == 0x066c }))
	case r == '“' || r == '”' || r == '„':
		s.quote(rest, rest[:size], "“”\"")
	case r == '«' || r == '»':
		s.quote(rest, rest[:size], "«»")
	case r == '‘' || r == '’' || r == '‚' || r == '‹':
		s.quote(rest, rest[:size], "‘’'›")
	case r == '「' || r == '『' || r == '【':
		s.quote(rest, rest[:size], "」』】")
	case unicode.IsLetter(r):
		n := prefix(rest, func(r rune) bool { return unicode.IsLetter(r) && r != '\'' || unicode.IsMark(r) })
		if name := emailLength(rest); name > n {
			s.fold(name)
			return
		}
		s.add(word, n, plainCase(rest[:n]))
	default:
		s.add(punct, size, rest[:size])
	}
}

func prefix(text string, in func(rune) bool) int {
	if end := strings.IndexFunc(text, func(r rune) bool { return !in(r) }); end >= 0 {
		return end
	}
	return len(text)
}

// alphanumeric reads a token that begins with an ASCII letter or digit.
func (s *scanner) alphanumeric(rest string) {
	if s.at > 0 && isLetter(rest[0]) && s.text[s.at-1] >= utf8.RuneSelf && s.lastKind() == word {
		n := prefix(rest, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) })
		s.tokens[len(s.tokens)-1].text += plainCase(rest[:n]) // a word with letters of both kinds
		s.at += n
		return
	}
	if n := urlLength(rest); n > 0 {
		s.add(word, n, foldURL(rest[:n]))
		return
	}
	if n := emailLength(rest); n > 0 {
		s.fold(n)
		return
	}
	if n := addressLength(rest); n > 0 {
		s.add(value, n, foldedAddress)
		return
	}
	if n := windowsPathLength(rest); n > 0 {
		s.fold(n)
		return
	}
	if isDigit(rest[0]) {
		if n := dateLength(rest); n > 0 {
			s.fold(n)
			return
		}
		s.number(rest)
		return
	}
	if n := encodedLength(rest); n > 0 {
		s.fold(n)
		return
	}
	n := wordLength(rest)
	s.word(rest[:n])
}

func (s *scanner) lastKind() kind {
	if len(s.tokens) == 0 {
		return space
	}
	return s.tokens[len(s.tokens)-1].kind
}

// word reads a word that begins with a letter.
func (s *scanner) word(text string) {
	n := len(text)
	if version, is := strings.CutPrefix(text, "HTTP"); is && version == "" && strings.HasPrefix(s.text[s.at+n:], "/") {
		v := prefix(s.text[s.at+n+1:], func(r rune) bool { return r >= '0' && r <= '9' || r == '.' })
		s.add(word, n+1+v, "HTTP")
		return
	}
	hasDigit := strings.ContainsAny(text, "0123456789")
	switch {
	case hasDigit && (s.isCode(text) || isTechnical(text)):
		s.add(word, n, text)
	case hasDigit && s.isNamed():
		s.add(word, n, foldLongDigits(text))
	case hasDigit, isHex(text), isTemporary(text):
		s.fold(n)
	case strings.ContainsRune(text, '-') && s.followsGoods(s.between()):
		s.fold(n)
	case !hasDigit && isCapitals(text) && (strings.ContainsRune(text, '-') && !s.isHeading(n) || s.followsNoun()):
		s.fold(n)
	default:
		s.add(word, n, s.caseOf(text))
	}
}

// caseOf returns a word in lower case if it is one of a sentence; parts of names stay.
func (s *scanner) caseOf(text string) string {
	end := s.at + len(text)
	joined := func(at int) bool { return at >= 0 && at < len(s.text) && (isLetter(s.text[at]) || s.text[at] == '_') }
	if s.at > 1 && strings.IndexByte(".:\\$/", s.text[s.at-1]) >= 0 && joined(s.at-2) ||
		end+1 < len(s.text) && strings.IndexByte(".:\\$/", s.text[end]) >= 0 && joined(end+1) {
		return text
	}
	return plainCase(text)
}

// plainCase returns a word whose first letter alone is upper case in lower case.
func plainCase(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if !unicode.IsUpper(first) || strings.ContainsFunc(text[size:], unicode.IsUpper) {
		return text
	}
	return string(unicode.ToLower(first)) + text[size:]
}

// between returns the text from the newest word to the place of the scanner, or the end of it.
func (p *place) between() string {
	const most = 16
	return p.text[max(min(p.since, p.at), p.at-most):p.at]
}

// assignment reads the value after "name=" if the name says that it is one of many.
func (s *scanner) assignment(rest string) bool {
	if s.at == 0 || s.since != s.at || !isValueName(s.words[0]) {
		return false
	}
	n := prefix(rest[1:], func(r rune) bool { return !unicode.IsSpace(r) && !strings.ContainsRune(",;&)}]|\"'`<", r) })
	if n == 0 {
		return false
	}
	if given := rest[1 : 1+n]; given == "null" || given == "true" || given == "false" || given == "None" || given == "nil" || given == folded {
		return false
	}
	s.add(punct, 1, "=")
	s.fold(n)
	return true
}

// write returns the text of tokens.
func write(tokens []token) string {
	var out strings.Builder
	n := 0
	for _, t := range tokens {
		n += len(t.text)
	}
	out.Grow(n)
	for _, t := range tokens {
		out.WriteString(t.text)
	}
	return strings.TrimRight(strings.TrimSpace(out.String()), ".!,; ")
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func isUpper(c byte) bool  { return c >= 'A' && c <= 'Z' }
