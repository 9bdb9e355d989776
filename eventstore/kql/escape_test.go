package kql

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// characters returns each character of the first planes, and some of the last.
func characters() []rune {
	var list []rune
	for r := range rune(0x3100) {
		list = append(list, r)
	}
	return append(list, '\ud7ff', '\ue000', '\ufeff', '\ufffd', '\uffff', '\U00010000', '\U0001f3bb', utf8.MaxRune)
}

// Each character can be a value, a phrase, and a part of a name: printed as a query, it
// comes back, and no invisible character is printed as it is.
func TestEachCharacterCanBeSearched(t *testing.T) {
	for _, r := range characters() {
		inside := "a" + string(r) + "b"
		requireSame(t, Is{Value: Value{Pattern: Pattern{inside}}})
		if printed := (Is{Value: Value{Pattern: Pattern{inside}}}).String(); strings.ContainsFunc(printed, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%U is printed as %q", r, printed)
		}
		requireSame(t, Is{Value: Value{Pattern: trim(Pattern{string(r), "x" + string(r)})}, Field: Pattern{"f"}})
		requireSame(t, Is{Value: Value{Pattern: Pattern{string(r)}, Quoted: true}})
		requireSame(t, Is{Field: Pattern{inside}, Value: Value{Pattern: Pattern{"x"}}})
		requireSame(t, Exists{Field: Pattern{string(r) + inside}})
		requireSame(t, Range{Field: Pattern{"f"}, Op: Less, Value: Value{Pattern: Pattern{inside + string(r) + "c"}}})
	}
}

// A code unit stands for its character, in any case of its digits, in and out of quotes.
func TestCodeUnits(t *testing.T) {
	for _, r := range characters() {
		if r > 0xffff {
			continue
		}
		for _, format := range []string{`"\u%04x"`, `"\u%04X"`} {
			node, err := Parse(fmt.Sprintf(format, r))
			if err != nil {
				t.Fatalf("%U: %v", r, err)
			}
			if !Equal(node, phrase(string(r))) {
				t.Errorf("%U: got %s", r, node)
			}
		}
		if node, err := Parse(fmt.Sprintf(`x\u%04xx`, r)); err != nil || !Equal(node, word("x")) && !Equal(node, Is{Value: Value{Pattern: Pattern{"x" + string(r) + "x"}}}) {
			t.Errorf("%U without quotes: %s, %v", r, node, err)
		}
	}
}

// A backslash before an ASCII character is an escape of Kibana's grammar or an error
// that names all escapes; in quotes it is an escape or a backslash.
func TestBackslashes(t *testing.T) {
	escaped := map[rune]string{'t': "\t", 'r': "\r", 'n': "\n"}
	for _, r := range special {
		escaped[r] = string(r)
	}
	for r := rune(0); r < utf8.RuneSelf; r++ {
		node, err := Parse(`x\` + string(r) + `y`)
		want, isEscape := escaped[r]
		var syntax *SyntaxError
		switch {
		case isEscape && err != nil:
			t.Errorf(`\%c: %v`, r, err)
		case isEscape && !Equal(node, Is{Value: Value{Pattern: Pattern{"x" + want + "y"}}}):
			t.Errorf(`\%c: got %s`, r, node)
		case !isEscape && !errors.As(err, &syntax):
			t.Errorf(`\%q: got %s, %v`, r, node, err)
		case !isEscape && (syntax.Expected != escapes || syntax.Offset != 1):
			t.Errorf(`\%q: the error is %+v`, r, syntax)
		}
		literal := `x\` + string(r) + `y`
		switch r {
		case 't', 'r', 'n':
			literal = "x" + escaped[r] + "y"
		case '\\', '"':
			literal = "x" + string(r) + "y"
		}
		if node, err := Parse(`"x\` + string(r) + `y"`); err != nil || !Equal(node, phrase(literal)) {
			t.Errorf(`\%q in quotes: got %v, %v, want %q`, r, node, err, literal)
		}
	}
}

// The keywords can be values: escaped, in quotes, and within a word.
func TestKeywordsAsValues(t *testing.T) {
	for _, keyword := range []string{"and", "or", "not", "AND", "Or", "nOt"} {
		for text, want := range map[string]Node{
			`\` + keyword:                word(keyword),
			`"` + keyword + `"`:          phrase(keyword),
			keyword + "x":                word(keyword + "x"),
			"x" + keyword:                word("x" + keyword),
			"x" + keyword + "x":          word("x" + keyword + "x"),
			`a: \` + keyword:             is("a", keyword),
			`x \` + keyword + ` y`:       word("x " + keyword + " y"),
			`\` + keyword + `: x`:        is(keyword, "x"),
			`\` + keyword + ` and y`:     And{word(keyword), word("y")},
			`(\` + keyword + `)`:         word(keyword),
			`a: (\` + keyword + ` or b)`: Or{is("a", keyword), is("a", "b")},
		} {
			node, err := Parse(text)
			if err != nil || !Equal(node, want) {
				t.Errorf("%s: got %v, %v, want %s", text, node, err, want)
			}
			if err == nil {
				requireSame(t, node)
			}
		}
	}
}

// Halves of a surrogate pair are refused with the place of the first.
func TestSurrogates(t *testing.T) {
	for text, want := range map[string]string{
		`"\ud83d\ude00"`: "😀", `"\uDBFF\uDFFF"`: "\U0010ffff", `"\ud800\udc00x"`: "\U00010000x",
	} {
		if node, err := Parse(text); err != nil || !Equal(node, phrase(want)) {
			t.Errorf("%s: got %v, %v", text, node, err)
		}
	}
	for _, text := range []string{`"\ud83d"`, `"\ude00\ud83d"`, `"\ud83dx"`, `"\ud83d\u0041"`, `\ud83d`, `"\ud83d\ude0"`} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), "found half of a surrogate pair, expected both halves") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
