package errorgroup

import (
	"slices"
	"strings"
	"unicode"
)

// number reads a number, with all that is joined to it: fractions, groups, units.
func (s *scanner) number(rest string) {
	n := wordLength(rest)
	if strings.Trim(rest[:n], "0123456789") == "" && s.isStatus(rest[:n]) {
		s.add(word, n, rest[:n])
		return
	}
	if enhanced := s.enhancedStatus(rest); enhanced > 0 {
		s.add(word, enhanced, rest[:enhanced])
		return
	}
	if strings.EqualFold(rest[:n], "0x") || hasHexPrefix(rest[:n]) && s.isHResult(rest[:n]) {
		s.add(word, n, rest[:n])
		return
	}
	if s.isSQLState(rest[:n]) || s.isExact(rest[:n]) {
		s.add(word, n, rest[:n])
		return
	}
	for n < len(rest) && rest[n] == ',' && groupLength(rest[n+1:]) > 0 { // 1,234,567
		n += 1 + groupLength(rest[n+1:])
	}
	for n < len(rest) && (rest[n] == '%' || rest[n] == '+') {
		n++
	}
	if strings.HasPrefix(rest[n:], " %") {
		n += 2
	}
	if n+1 < len(rest) && rest[n] == '.' && isDigit(rest[n+1]) {
		n += 1 + wordLength(rest[n+1:])
	}
	s.fold(n)
}

// groupLength returns the length of three digits with which a text begins, with a fraction.
func groupLength(text string) int {
	n := wordLength(text)
	whole, _, _ := strings.Cut(text[:n], ".")
	if len(whole) == 3 && strings.Trim(whole, "0123456789") == "" {
		return n
	}
	return 0
}

// dateLength returns the length of a date or time of digits with which a text begins.
func dateLength(text string) int {
	n := digitsLength(text)
	switch {
	case n == 4:
		n = fieldsLength(text, "-/.", 3)
	case n == 1 || n == 2:
		if date := fieldsLength(text, "-/.", 3); date > 0 {
			n = date
		} else {
			return clockLength(text)
		}
	default:
		return 0
	}
	if n == 0 {
		return 0
	}
	if n < len(text) && (text[n] == 'T' || text[n] == ' ' || text[n] == '_' || text[n] == ':') {
		if clock := clockLength(text[n+1:]); clock > 0 {
			n += 1 + clock
		}
	}
	if n < len(text) && inWord(text[n]) && text[n] != '-' {
		return 0
	}
	return n
}

// fieldsLength returns the length of count fields of digits, with one separator between them.
func fieldsLength(text, separators string, count int) int {
	n := digitsLength(text)
	if n >= len(text) || strings.IndexByte(separators, text[n]) < 0 {
		return 0
	}
	separator := text[n]
	for i := 1; i < count; i++ {
		if n >= len(text) || text[n] != separator {
			return 0
		}
		field := digitsLength(text[n+1:])
		if field == 0 || field > 4 || field == 3 {
			return 0
		}
		n += 1 + field
	}
	if n+1 < len(text) && text[n] == separator && isDigit(text[n+1]) {
		return 0 // more fields than a date has
	}
	return n
}

// clockLength returns the length of a time of the day, with its zone.
func clockLength(text string) int {
	n := digitsLength(text)
	if n == 0 || n > 2 || n+2 >= len(text) || text[n] != ':' || digitsLength(text[n+1:]) != 2 {
		return 0
	}
	n += 3
	if n+2 < len(text) && text[n] == ':' && digitsLength(text[n+1:]) == 2 {
		n += 3
	}
	if n+1 < len(text) && (text[n] == '.' || text[n] == ',') && isDigit(text[n+1]) {
		n += 1 + digitsLength(text[n+1:])
	}
	if zone := zoneLength(text[n:]); zone > 0 {
		n += zone
	}
	if n < len(text) && (inWord(text[n]) || text[n] == ':') {
		return 0
	}
	return n
}

// zoneLength returns the length of a time zone with which a text begins.
func zoneLength(text string) int {
	at := 0
	if at < len(text) && text[at] == ' ' {
		at++
	}
	switch {
	case at < len(text) && text[at] == 'Z' && (at+1 == len(text) || !inWord(text[at+1])):
		return at + 1
	case at < len(text) && (text[at] == '+' || text[at] == '-'):
		n := digitsLength(text[at+1:])
		if n == 4 {
			return at + 1 + n
		}
		if n == 2 {
			if at+3 < len(text) && text[at+3] == ':' && digitsLength(text[at+4:]) == 2 {
				return at + 6
			}
			return at + 3
		}
	}
	return 0
}

func digitsLength(text string) int {
	n := 0
	for n < len(text) && isDigit(text[n]) {
		n++
	}
	return n
}

// isStatus reports whether a number is a status or the code of an error, by the words around it.
func (p *place) isStatus(number string) bool {
	between, before := p.between(), p.words[0]
	if len(number) > 5 || len(p.words[0]) == 0 && p.at > 0 && strings.TrimSpace(p.text[:p.at]) != "" && p.text[p.at-1] != '(' && p.text[p.at-1] != '[' {
		return false
	}
	joins := strings.Trim(between, " =:(['\"") == "" && len(between) <= 4 || between == " #" || between == "#"
	after := p.text[p.at+len(number):]
	isHTTP := len(number) == 3 && number[0] >= '1' && number[0] <= '5'
	switch {
	case before == "":
	case joins && slices.Contains(statusWords, before):
		return true
	case joins && before == "code" && slices.Contains(codeWords, p.words[1]):
		return true
	case joins && strings.Trim(between, " ([#=") == "" && (before == "error" || before == "err" || before == "msg"):
		return true
	case joins && (before == "number" || before == "no") && slices.ContainsFunc(p.words[1:], func(w string) bool { return w == "error" || w == "message" || w == "msg" }):
		return true
	case joins && (before == "with" || before == "of") && slices.Contains(exitWords, p.words[1]):
		return isHTTP || strings.HasPrefix(p.words[1], "exit")
	case isHTTP && joins && slices.Contains(answerWords, before) && endsClause(after):
		return true
	case isHTTP && strings.TrimSpace(between) == ":" && endsClause(after) && slices.ContainsFunc(p.words[:], func(w string) bool { return slices.Contains(answerNouns, w) }):
		return number >= "400"
	}
	switch {
	case isHTTP && (between != " " || !isLetterWord(before) || slices.Contains(answerNouns, before) || slices.Contains(answerWords, before) || before == "error" || before == "a") && isReason(strings.ToLower(strings.TrimLeft(after[:min(len(after), 40)], " -()"))):
		return true
	case isHTTP && number >= "400" && p.at == 0 && (after == "" || strings.IndexByte(" -:", after[0]) >= 0):
		return true
	case isHTTP && p.isParenthesised(number) && (p.at == 1 || strings.HasSuffix(before, "exception") || strings.HasSuffix(before, "error") || strings.HasPrefix(after, ") ") && len(after) > 3 && isUpper(after[2]) && isUpper(after[3])):
		return true
	case len(number) >= 3 && p.at == 1 && p.text[0] == '(' && strings.HasPrefix(after, ", "): // the arguments of an error of Python
		return true
	}
	return false
}

// isLetterWord reports whether a word has a letter: a status after it belongs to it.
func isLetterWord(word string) bool { return strings.ContainsFunc(word, unicode.IsLetter) }

// isParenthesised reports whether a text at the place of the scanner is in parentheses alone.
func (p *place) isParenthesised(text string) bool {
	end := p.at + len(text)
	return p.at > 0 && end < len(p.text) && (p.text[p.at-1] == '(' && p.text[end] == ')' || p.text[p.at-1] == '[' && p.text[end] == ']')
}

// endsClause reports whether a text begins with the end of a clause, or with the words that
// follow a status.
func endsClause(after string) bool {
	trimmed := strings.TrimLeft(after, " ")
	if trimmed == "" || strings.IndexByte(",;:.)]-{[(<\"'", trimmed[0]) >= 0 {
		return true
	}
	lower := strings.ToLower(trimmed[:min(len(trimmed), 40)])
	next := lower[:prefix(lower, func(r rune) bool { return r >= 'a' && r <= 'z' })]
	return slices.Contains(clauseWords, next) || isReason(lower)
}

// enhancedStatus returns the length of a status of SMTP such as 5.1.1 after one such as 550.
func (p *place) enhancedStatus(rest string) int {
	if len(p.words[0]) != 3 || !isDigit(p.words[0][0]) || strings.TrimLeft(p.between(), " -") != "" {
		return 0
	}
	n := wordLength(rest)
	if n >= 5 && n <= 8 && strings.Count(rest[:n], ".") == 2 && strings.Trim(rest[:n], "0123456789.") == "" {
		return n
	}
	return 0
}

// isSQLState reports whether a word is an SQLSTATE, by the text before it.
func (p *place) isSQLState(text string) bool {
	if len(text) != 5 {
		return false
	}
	if p.words[0] == "sqlstate" && strings.Trim(p.between(), " [(:='") == "" {
		return true
	}
	isNumber := p.words[0] != "" && strings.Trim(p.words[0], "0123456789") == ""
	return isNumber && p.isParenthesised(text) && p.between() == " ("
}

// isExact reports whether a number is the code of a database after its SQLSTATE.
func (p *place) isExact(number string) bool {
	return len(number) <= 5 && strings.Trim(number, "0123456789") == "" && strings.HasSuffix(p.between(), ": ") && strings.HasPrefix(p.text, "SQLSTATE[")
}

func hasHexPrefix(text string) bool {
	return len(text) > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')
}

// isHResult reports whether a hexadecimal number is a code of Windows.
func (p *place) isHResult(text string) bool {
	if len(text) != 10 {
		return false
	}
	isError := text[2] == '8' || text[2] == 'c' || text[2] == 'C'
	joins := strings.Trim(p.between(), " =:([") == "" && (slices.Contains(statusWords, p.words[0]) || p.words[0] == "code" || p.words[0] == "error" || p.words[0] == "exception")
	return isError && (joins || p.isParenthesised(text))
}

// keptSigned returns the length of a negative number that is a code; 0: it is another number.
func (p *place) keptSigned(rest string) int {
	n := 1 + digitsLength(rest[1:])
	if n > 7 || n < len(rest) && (inWord(rest[n]) || rest[n] == '.') || !p.isStatusWord() {
		return 0
	}
	return n
}

// isStatusWord reports whether the newest word says that a code follows at once.
func (p *place) isStatusWord() bool {
	between := p.between()
	if strings.Trim(between, " =:([") != "" || len(between) > 3 {
		return false
	}
	return slices.Contains(statusWords, p.words[0]) || p.words[0] == "code" && slices.Contains(codeWords, p.words[1])
}
