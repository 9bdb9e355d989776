package kql

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// The caret is under the first character of the wrong name, whatever is before it in
// the query: wide characters, combining marks, control characters, other lines.
func TestTheCaretIsUnderTheName(t *testing.T) {
	random := rand.New(rand.NewPCG(31, 0))
	pieces := []string{"a", "日本", "e\u0301", "🎻", "ｶ", "\u202e", "\\u0041", `\(`, "é"}
	for range 3000 {
		var query strings.Builder
		for range random.IntN(60) {
			for range 1 + random.IntN(12) {
				query.WriteString(pieces[random.IntN(len(pieces))])
			}
			query.WriteString([]string{" or ", "\nor ", "\u00a0or\t"}[random.IntN(3)])
		}
		query.WriteString("no.such.name: x")
		for range random.IntN(60) {
			query.WriteString(" or " + pieces[random.IntN(len(pieces))])
		}
		node, err := Parse(query.String())
		if err != nil {
			t.Fatalf("%q: %v", query.String(), err)
		}
		_, err = Resolve(node, testFields)
		if shown := underCaret(t, err); !strings.HasPrefix(shown, "no.such.name: x") {
			t.Fatalf("under the caret is %q:\n%s", shown, err)
		}
	}
}

// underCaret returns the text of a shown line from the column of the caret.
func underCaret(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	caret, isCaret := strings.CutSuffix(lines[len(lines)-1], "^")
	if len(lines) != 3 || !isCaret || strings.TrimLeft(caret, " ") != "" {
		t.Fatalf("not a message, a line and a caret:\n%s", err)
	}
	line := lines[1]
	for at := range line {
		if Width(line[:at]) == len(caret) && Width(line[at:at+1]) > 0 {
			return line[at:]
		}
	}
	return ""
}

// A syntax error points at the text that it found.
func TestSyntaxErrorsPointAtWhatTheyFound(t *testing.T) {
	for query, found := range map[string]string{
		`a: b) and c`:        `) and c`,
		`(a or b`:            ``,
		`a b: "c`:            `"c`,
		`日本 and (x: y`:       ``,
		`a > *`:              `*`,
		`x and : y`:          `: y`,
		`x: {y: z}`:          `{y: z}`,
		`x: \q`:              `\q`,
		`x: "\ud800"`:        `\ud800"`,
		`not not x`:          `not x`,
		`tenant: ()`:         `)`,
		"first\nand )second": ")second",
	} {
		_, err := Parse(query)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%s: %v", query, err)
			continue
		}
		if rest := query[syntax.Offset:]; rest != found {
			t.Errorf("%s: it points at %q, not at %q:\n%s", query, rest, found, err)
		}
		if found != "" && !strings.HasPrefix(underCaret(t, err), found) {
			t.Errorf("%s: the caret is not under %q:\n%s", query, found, err)
		}
		if syntax.Query != query || syntax.Expected == "" || syntax.Found == "" {
			t.Errorf("%s: incomplete: %+v", query, syntax)
		}
	}
}

// The first byte of a query that is no UTF-8 is named, and the message is UTF-8.
func TestQueriesThatAreNotUTF8(t *testing.T) {
	for _, query := range []string{"\xff", "a: b\xc3", "日\xe6\x97", "a: \"\x80\"", "\ufffd: \xff"} {
		_, err := Parse(query)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || !utf8.ValidString(query[:syntax.Offset]) || utf8.FullRuneInString(query[syntax.Offset:]) && utf8.ValidString(query[syntax.Offset:syntax.Offset+1]) {
			t.Errorf("%q: %v", query, err)
			continue
		}
		if !utf8.ValidString(err.Error()) {
			t.Errorf("%q: the message %q is not UTF-8", query, err)
		}
	}
}

// No message has a character that would move or hide the caret.
func TestMessagesHaveNoControlCharacters(t *testing.T) {
	for r := range rune(0x3000) {
		if r == '\n' || isSpace(r) || strings.ContainsRune(special, r) {
			continue
		}
		_, err := Parse("a" + string(r) + "b )")
		if err == nil {
			t.Fatalf("%U: no error", r)
		}
		line := strings.Split(err.Error(), "\n")[1]
		if strings.ContainsFunc(line, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf) }) {
			t.Errorf("%U: the line %q has a control character", r, line)
		}
		if shown := underCaret(t, err); shown != ")" {
			t.Errorf("%U: under the caret is %q", r, shown)
		}
	}
}
