package errorgroup

import (
	"strings"
)

// wordLength returns the length of the word with which a text begins. Hyphens are within it, and
// so are points between digits.
func wordLength(text string) int {
	n := formerWord(text)
	return len(strings.TrimRight(text[:n], "-"))
}

const longestScheme = 20

// urlLength returns the length of the URL with which a text begins; 0: it begins with none.
func urlLength(text string) int {
	scheme := 0
	for scheme < min(len(text), longestScheme) && (isLetter(text[scheme]) || isDigit(text[scheme]) || text[scheme] == '+' || text[scheme] == '-' || text[scheme] == '.') {
		scheme++
	}
	if scheme == 0 || !strings.HasPrefix(text[scheme:], "://") {
		return 0
	}
	n := scheme + 3
	for n < len(text) && text[n] > ' ' && strings.IndexByte("\"'`<>|{}\\^", text[n]) < 0 {
		n++
	}
	return len(strings.TrimRight(text[:n], ".,;:!?)]"))
}

// foldURL keeps the scheme, the host without digits, and the first segment of the path that is a
// word: ids and names follow.
func foldURL(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	rest, _, _ = strings.Cut(rest, "?")
	rest, _, _ = strings.Cut(rest, "#")
	host, path, hasPath := strings.Cut(rest, "/")
	host = host[strings.LastIndexByte(host, '@')+1:]
	var out strings.Builder
	out.WriteString(scheme + "://")
	host, port, hasPort := strings.Cut(host, ":")
	if host == "" || strings.ContainsAny(host, "0123456789[") || hasPort && strings.Trim(port, "0123456789") != "" {
		host = folded
	}
	out.WriteString(strings.ToLower(host))
	if hasPath && path != "" {
		foldPath(&out, path)
	}
	return out.String()
}

// foldPath keeps the first segment of a path that names its subject.
func foldPath(out *strings.Builder, path string) {
	for i, segment := range strings.Split(path, "/") {
		if !isStatic(segment) {
			out.WriteString("/" + folded)
			break
		}
		out.WriteString("/" + segment)
		if !isPrefix(segment) || i > 3 {
			if strings.Count(path, "/") > i {
				out.WriteString("/" + folded)
			}
			break
		}
	}
}

// isStatic reports whether a segment of a path is a word of a program.
func isStatic(segment string) bool {
	if segment == "" || len(segment) > 40 {
		return false
	}
	for _, c := range []byte(segment) {
		if !(c >= 'a' && c <= 'z') && c != '-' && c != '_' && c != '.' {
			return isPrefix(segment)
		}
	}
	return true
}

// isPrefix reports whether a segment of a path comes before the name of the subject of the path.
func isPrefix(segment string) bool {
	switch segment {
	case "api", "rest", "rpc", "graphql", "services", "service", "internal", "public", "v1", "v2", "v3", "v4":
		return true
	}
	return false
}

const longestEmail = 254

// emailLength returns the length of the e-mail address with which a text begins.
func emailLength(text string) int {
	text = text[:min(len(text), longestEmail)]
	at := 0
	for at < len(text) && text[at] != '@' {
		if c := text[at]; !isLetter(c) && !isDigit(c) && strings.IndexByte("._%+-", c) < 0 && c < 0x80 {
			return 0
		}
		at++
	}
	if at == len(text) {
		return 0
	}
	end := at + 1
	for end < len(text) && (isLetter(text[end]) || isDigit(text[end]) || text[end] == '-' || text[end] == '.' || text[end] >= 0x80) {
		end++
	}
	if domain := text[at+1 : end]; !strings.Contains(domain, ".") && domain != "localhost" {
		return 0
	}
	return len(strings.TrimRight(text[:end], ".-"))
}

// foldedAddress stands for an IPv6 address: an address of IPv4 is a number.
const foldedAddress = "#::#"

// addressLength returns the length of the IPv6 address, or the hardware address, with which a text
// begins, with its port.
func addressLength(text string) int {
	n, colons, double, digits, group := 0, 0, false, false, 0
	for ; n < min(len(text), 60); n++ {
		c := text[n]
		switch {
		case c == ':':
			if n > 0 && text[n-1] == ':' {
				double = true
			}
			colons, group = colons+1, 0
			continue
		case isDigit(c):
			digits = true
		case c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F':
		case c == '.' && n > 0 && isDigit(text[n-1]) && n+1 < len(text) && isDigit(text[n+1]):
			group = 0
			continue
		default:
			if inWord(c) {
				return 0
			}
			goto end
		}
		if group++; group > 5 {
			return 0
		}
	}
end:
	n = len(strings.TrimRight(text[:n], ":."))
	if colons >= 2 && double && digits || colons >= 5 {
		return n
	}
	return 0
}

// colons reads an IPv6 address that begins with two colons.
func (s *scanner) colons(rest string) bool {
	if len(rest) < 3 || rest[1] != ':' || !isHexDigit(rest[2]) || s.at > 0 && inWord(s.text[s.at-1]) {
		return false
	}
	n := addressLength(rest)
	if n > 0 {
		s.add(value, n, foldedAddress)
	}
	return n > 0
}

// windowsPathLength returns the length of a path of Windows with which a text begins.
func windowsPathLength(text string) int {
	if len(text) < 4 || !isLetter(text[0]) || text[1] != ':' || text[2] != '\\' {
		return 0
	}
	n := 3
	for n < len(text) && text[n] > ' ' && strings.IndexByte("\"'`<>|:*?;,)", text[n]) < 0 {
		n++
	}
	return len(strings.TrimRight(text[:n], "."))
}

// path reads the path of a file. Its folders stay, unless they have digits or are for temporary
// files.
func (s *scanner) path(rest string) bool {
	if len(rest) < 2 || rest[1] == '/' {
		return false
	}
	n := 1
	for n < len(rest) && (inWord(rest[n]) || strings.IndexByte("/.@%+~$#", rest[n]) >= 0) {
		n++
	}
	n = len(strings.TrimRight(rest[:n], "."))
	segments := strings.Split(rest[1:n], "/")
	if segments[0] == "" {
		return false
	}
	var out strings.Builder
	if s.between() == " " && isMethod(s.words[0]) {
		foldPath(&out, rest[1:n])
		s.add(word, n+queryLength(rest[n:]), out.String())
		return true
	}
	for i, segment := range segments {
		if isTemporaryFolder(segments, i) || strings.ContainsAny(segment, "0123456789") && !isTechnical(segment) && !isPrefix(segment) || isMixed(segment) {
			out.WriteString("/" + folded)
			if isTemporaryFolder(segments, i) {
				break
			}
			continue
		}
		out.WriteString("/" + segment)
	}
	s.add(word, n, out.String())
	return true
}

// isMethod reports whether a word is a method of HTTP, in lower case.
func isMethod(word string) bool {
	switch word {
	case "get", "post", "put", "patch", "delete", "head", "options":
		return true
	}
	return false
}

// queryLength returns the length of the query of a URL with which a text begins.
func queryLength(text string) int {
	if text == "" || text[0] != '?' {
		return 0
	}
	n := 1
	for n < len(text) && text[n] > ' ' && strings.IndexByte("\"'`<>)]", text[n]) < 0 {
		n++
	}
	return n
}

// isTemporaryFolder reports whether a segment and those after it are in a folder of temporary
// files.
func isTemporaryFolder(segments []string, at int) bool {
	return at > 0 && (segments[at-1] == "tmp" || segments[at-1] == "temp")
}

// isTemporary reports whether a word is the name of a temporary file, as programs make them.
func isTemporary(word string) bool {
	return strings.HasPrefix(word, "tmp") && len(word) >= len("tmp")+5 || isMixed(word)
}

// isMixed reports whether upper and lower case change in a word as in no name.
func isMixed(word string) bool {
	const several = 3
	single := 0 // letters of lower case between two of upper case
	for i := range len(word) {
		switch {
		case !isLetter(word[i]) && !isDigit(word[i]):
			return false
		case i > 0 && i+1 < len(word) && isUpper(word[i-1]) && isUpper(word[i+1]) && isLetter(word[i]) && !isUpper(word[i]):
			single++
		}
	}
	return len(word) >= 10 && single >= several
}

// longestEncoded bounds the part of a text that encodedLength reads; the rest is encoded likewise.
const longestEncoded = 512

// encodedLength returns the length of the base64, hexadecimal text or token with which a text
// begins: what no word looks like.
func encodedLength(text string) int {
	n, upper, lower, digits, other, changes := 0, 0, 0, 0, 0, 0
	var before byte
scan:
	for ; n < min(len(text), longestEncoded); n++ {
		c := text[n]
		class := byte('o')
		switch {
		case isUpper(c):
			upper++
			class = 'u'
		case isLetter(c):
			lower++
			class = 'l'
		case isDigit(c):
			digits++
			class = 'd'
		case c == '+' || c == '/' || c == '_' || c == '-' || c == '.' && n > 16:
			other++
		default:
			break scan
		}
		if n > 0 && class != before {
			changes++
		}
		before = class
	}
	padded := n
	for padded < len(text) && text[padded] == '=' && padded < n+2 {
		padded++
	}
	text = strings.TrimRight(text[:n], ".-")
	switch {
	case n < 16:
		return 0
	case padded > n && padded >= 20 && upper > 0 && lower > 0:
		return padded
	case strings.ContainsAny(text, "/") && !strings.ContainsAny(text, "+"):
		return 0 // a path
	case strings.HasPrefix(text, "eyJ") && strings.Count(text, ".") == 2:
		return len(text)
	case strings.ContainsAny(text, "."):
		return 0
	case upper > 0 && lower > 0 && digits > 0 && changes*4 >= n:
		return len(text)
	}
	return 0
}

// isHex reports whether a word is hexadecimal without being a word of a language.
func isHex(word string) bool {
	if len(word) < 8 {
		return false
	}
	for i := range len(word) {
		if !isHexDigit(word[i]) {
			return false
		}
	}
	return true
}

func isHexDigit(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

// isCapitals reports whether a word has upper case letters only, two or more.
func isCapitals(word string) bool {
	for i := range len(word) {
		if !isUpper(word[i]) && word[i] != '-' {
			return false
		}
	}
	return len(word) > 1
}

// foldLongDigits replaces the digits of a name that has many of them, such as a table for a day.
func foldLongDigits(name string) string {
	const long = 3
	run, longest := 0, 0
	for i := range len(name) {
		if isDigit(name[i]) {
			run++
			longest = max(longest, run)
		} else {
			run = 0
		}
	}
	if longest < long {
		return name
	}
	var out strings.Builder
	for i := range len(name) {
		switch {
		case !isDigit(name[i]):
			out.WriteByte(name[i])
		case i == 0 || !isDigit(name[i-1]):
			out.WriteString(folded)
		}
	}
	return out.String()
}
