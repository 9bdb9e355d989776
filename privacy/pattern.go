package privacy

import (
	"fmt"
	"regexp"
	"strings"
)

// Patterns are the names of built-in patterns.
func Patterns() []string { return []string{"mail", "card", "iban", "token"} }

// detector finds the values of a pattern in a text.
type detector interface {
	// may reports whether the text can have a value: it is quick, and may be wrong only with true.
	may(text string) bool

	// find returns the first value, and the form in which equal values are equal; begin is -1 if
	// the text has no value.
	find(text string) (begin, end int, value string)
}

// detectorsOf returns the detectors of a pattern, each of which finds its values in what the one before has left.
func detectorsOf(pattern string) ([]detector, error) {
	switch pattern {
	case "mail":
		return []detector{mail{}}, nil
	case "card":
		return []detector{card{}}, nil
	case "iban":
		return []detector{iban{}}, nil
	case "token":
		return credentials(), nil
	}
	if len(pattern) > maxExpression {
		return nil, fmt.Errorf("pattern: expected an expression of at most %d bytes", maxExpression)
	}
	compiled, err := regexp.Compile(pattern)
	switch {
	case err != nil:
		return nil, fmt.Errorf("pattern: expected one of %s, or a regular expression (RE2): %w", strings.Join(Patterns(), ", "), err)
	case compiled.MatchString(""):
		return nil, fmt.Errorf("pattern: %q matches the empty text", pattern)
	}
	return []detector{expression{compiled}}, nil
}

// expression is a regular expression. Of one with a group, the group is the value.
type expression struct{ *regexp.Regexp }

func (x expression) may(string) bool { return true }

func (x expression) find(text string) (begin, end int, value string) {
	found := x.FindStringSubmatchIndex(text)
	if found == nil {
		return -1, -1, ""
	}
	begin, end = found[0], found[1]
	if len(found) > 2 && found[2] >= 0 && found[3] > found[2] {
		begin, end = found[2], found[3]
	}
	return begin, end, text[begin:end]
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isWord(c byte) bool   { return isDigit(c) || isLetter(c) || c == '_' }

// mail finds mail addresses, also with %40 as in URLs.
type mail struct{}

func (mail) may(text string) bool {
	return strings.IndexByte(text, '@') >= 0 || strings.Contains(text, "%40")
}

func (mail) find(text string) (begin, end int, value string) {
	for from := 0; from < len(text); {
		at := from
		switch {
		case text[at] == '@':
			from++
		case strings.HasPrefix(text[at:], "%40"):
			from += 3
		default:
			from++
			continue
		}
		begin = at
		for begin > 0 && isLocal(text[begin-1]) {
			begin--
		}
		for begin < at && (text[begin] == '\'' || text[begin] == '.') {
			begin++
		}
		end = from
		for end < len(text) && isDomain(text[end]) {
			end++
		}
		for end > from && (text[end-1] == '.' || text[end-1] == '-') {
			end--
		}
		if begin < at && hasTop(text[from:end]) {
			return begin, end, strings.ToLower(text[begin:at] + "@" + text[from:end])
		}
	}
	return -1, -1, ""
}

func isLocal(c byte) bool  { return isWord(c) || c >= 0x80 || strings.IndexByte(".+-'!#$*^~`", c) >= 0 }
func isDomain(c byte) bool { return isDigit(c) || isLetter(c) || c >= 0x80 || c == '.' || c == '-' }

// hasTop reports whether a domain ends in a top-level domain: versions, as in name@v1.2.3, do not.
func hasTop(domain string) bool {
	dot := strings.LastIndexByte(domain, '.')
	top := domain[dot+1:]
	if dot < 1 || len(top) < 2 {
		return false
	}
	if len(top) > 4 && strings.EqualFold(top[:4], "xn--") {
		return true
	}
	for i := range len(top) {
		if !isLetter(top[i]) && top[i] < 0x80 {
			return false
		}
	}
	return true
}

// card finds numbers of payment cards: 13 to 19 digits of an issuer, perhaps in groups, whose check
// digit is right (ISO/IEC 7812-1).
type card struct{}

const shortestCard, longestCard = 13, 19

func (card) may(text string) bool { return digits(text, shortestCard) }

// digits reports whether a text has n digits or more.
func digits(text string, n int) bool {
	for i := 0; i < len(text) && n > 0; i++ {
		if isDigit(text[i]) {
			n--
		}
	}
	return n <= 0
}

func (card) find(text string) (begin, end int, value string) {
	for i := 0; i < len(text); i++ {
		if !isDigit(text[i]) || i > 0 && isWord(text[i-1]) {
			continue
		}
		if end, value = cardAt(text[i:]); end > 0 {
			return i, i + end, value
		}
	}
	return -1, -1, ""
}

// cardAt returns the end of the longest card number at the beginning of a text; 0 without a number.
func cardAt(text string) (end int, number string) {
	var digits []byte
	for i := 0; i < len(text) && len(digits) < longestCard; i++ {
		switch c := text[i]; {
		case isDigit(c):
			digits = append(digits, c)
			ends := i+1 == len(text) || !isWord(text[i+1])
			if ends && len(digits) >= shortestCard && isIssuer(digits) && luhn(digits) {
				end, number = i+1, string(digits)
			}
		case (c == ' ' || c == '-') && i+1 < len(text) && isDigit(text[i+1]):
		default:
			return end, number
		}
	}
	return end, number
}

// isIssuer reports whether a number may begin a card's. Times in milliseconds, which begin with 1, do not.
func isIssuer(digits []byte) bool {
	first := string(digits[:4])
	return "3" <= first && first < "7" || "2221" <= first && first <= "2720"
}

func luhn(digits []byte) bool {
	sum := 0
	for i, d := range digits {
		n := int(d - '0')
		if (len(digits)-i)%2 == 0 {
			if n *= 2; n > 9 {
				n -= 9
			}
		}
		sum += n
	}
	return sum%10 == 0
}

// iban finds account numbers whose check digits are right (ISO 13616).
type iban struct{}

const shortestIBAN, longestIBAN = 15, 34

// ibanLengths are the lengths of the account numbers of each country in the registry of ISO 13616. Without them a word that
// follows may seem to be a part of a number, and would hide from other patterns.
const ibanLengths = "AD24AE23AL28AT20AZ28BA20BE16BG22BH22BI27BR29BY28CH21CR22CY28CZ24DE22DJ27DK18DO28EE20EG29ES24FI18FK18FO18FR27" +
	"GB22GE22GI23GL18GR27GT28HN28HR21HU28IE22IL23IQ23IS26IT27JO30KW30KZ20LB28LC32LI21LT20LU20LV21LY25MC27MD24ME22MK19MN20MR27MT31MU30" +
	"NI28NL18NO15OM23PK24PL28PS29PT25QA29RO24RS22RU33SA24SC31SD18SE24SI19SK24SM27SO23ST25SV28TL23TN24TR26UA29VA22VG24XK20YE30"

// lengthOfIBAN returns the length of the account numbers of a country; 0: it is not in the registry, and any may be right.
func lengthOfIBAN(country string) int {
	for i := 0; i < len(ibanLengths); i += 4 {
		if strings.EqualFold(ibanLengths[i:i+2], country) {
			return int(ibanLengths[i+2]-'0')*10 + int(ibanLengths[i+3]-'0')
		}
	}
	return 0
}

func (iban) may(text string) bool { return digits(text, 8) }

func (iban) find(text string) (begin, end int, value string) {
	for i := 0; i+shortestIBAN <= len(text); i++ {
		if isLetter(text[i]) && isLetter(text[i+1]) && isDigit(text[i+2]) && isDigit(text[i+3]) && (i == 0 || !isWord(text[i-1])) {
			if end, value = ibanAt(text[i:]); end > 0 {
				return i, i + end, value
			}
		}
	}
	return -1, -1, ""
}

func ibanAt(text string) (end int, number string) {
	var code []byte
	length := lengthOfIBAN(text[:2])
	for i := 0; i < len(text) && len(code) < longestIBAN; i++ {
		switch c := text[i]; {
		case isDigit(c) || isLetter(c):
			code = append(code, c)
			ends := i+1 == len(text) || !isWord(text[i+1])
			if ends && (len(code) == length || length == 0 && len(code) >= shortestIBAN) && hasCheckDigits(code) {
				end, number = i+1, strings.ToUpper(string(code))
			}
		case (c == ' ' || c == '-') && i+1 < len(text) && isWord(text[i+1]):
		default:
			return end, number
		}
	}
	return end, number
}

func hasCheckDigits(code []byte) bool {
	rest := 0
	for i := range code {
		switch c := code[(i+4)%len(code)]; {
		case isDigit(c):
			rest = (rest*10 + int(c-'0')) % 97
		default:
			rest = (rest*100 + int(c|0x20-'a') + 10) % 97
		}
	}
	return rest == 1
}

// credential is a form of credentials.
type credential struct {
	expression
	marks   []string // a text without any of them has none
	anyCase bool     // of the marks, which are of small letters
}

// credentials returns the forms of credentials. What stands after a name is found before what has a form of its
// own, so that it is replaced once.
func credentials() []detector {
	of := func(text string, marks ...string) credential {
		return credential{expression{regexp.MustCompile(text)}, marks, strings.HasPrefix(text, "(?i)")}
	}
	return []detector{
		of(`(?i)\b(?:bearer|basic)[ +]+([a-z0-9._~+/=-]{8,})`, "bearer", "basic"),
		of(`(?i)(?:password|passwd|pwd|(?:secret|access|private|api)[_-]?key|secret|token)\\?["']?\s*[:=]\s*\\?["']?([^\s"'&;,\\]{4,})`, "passw", "pwd", "secret", "key", "token"),
		of(`\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)*`, "eyJ"),                                                  // JWT
		of(`\b(?:AKIA|ASIA|AROA|AIDA)[0-9A-Z]{16}\b`, "AKIA", "ASIA", "AROA", "AIDA"),                                                // Amazon
		of(`\b(?:gh[pousr]_|github_pat_)[A-Za-z0-9_]{20,}`, "gh", "github_pat_"),                                                     // GitHub
		of(`\b(?:xox[a-z]-|sk_live_|rk_live_|whsec_|glpat-|AIza)[A-Za-z0-9_/+=-]{10,}`, "xox", "_live_", "whsec_", "glpat-", "AIza"), // Slack, Stripe, GitLab, Google
		of(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`, "PRIVATE KEY"),
		of(`://([^\s/@"']+)@`, "://"), // the login of a URL
	}
}

func (c credential) may(text string) bool {
	for _, mark := range c.marks {
		if strings.Contains(text, mark) || c.anyCase && containsFold(text, mark) {
			return true
		}
	}
	return false
}

// containsFold reports whether a text has a word of small letters, in any case.
func containsFold(text, word string) bool {
	for i := 0; i+len(word) <= len(text); i++ {
		if text[i]|0x20 == word[0] && strings.EqualFold(text[i:i+len(word)], word) {
			return true
		}
	}
	return false
}
