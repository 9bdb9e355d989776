package kql

import (
	"strings"
	"testing"
)

// The trees of the tests, short enough to stand in a table.

func name(text string) Pattern { return strings.Split(text, "*") }

func bareValue(text string) Value { return Value{Pattern: strings.Split(text, "*")} }

func word(text string) Node { return Is{Value: bareValue(text)} }

func phrase(text string) Node { return Is{Value: Value{Pattern: Pattern{text}, Quoted: true}} }

func is(field, value string) Node { return Is{Field: name(field), Value: bareValue(value)} }

func isPhrase(field, value string) Node {
	return Is{Field: name(field), Value: Value{Pattern: Pattern{value}, Quoted: true}}
}

func isText(field, value string) Node { // without wildcards, even if it has an asterisk
	return Is{Field: name(field), Value: Value{Pattern: Pattern{value}}}
}

func exists(field string) Node { return Exists{Field: name(field)} }

func compare(field string, op Op, value string) Node {
	return Range{Field: name(field), Op: op, Value: bareValue(value)}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		rule string
		text string
		want Node
	}{
		{"nothing is everything", ``, All{}},
		{"space is nothing", " \t\r\n\u00A0", All{}},
		{"everything by name", `*: *`, All{}},
		{"everything in a group", `*: (* or x)`, Or{All{}, is("*", "x")}},

		{"a word", `foo`, word("foo")},
		{"space around it", "  foo ", word("foo")},
		{"words are one value", `foo bar`, word("foo bar")},
		{"space within stays", `foo  bar`, word("foo  bar")},
		{"a phrase", `"foo bar"`, phrase("foo bar")},
		{"an empty phrase", `""`, phrase("")},
		{"a lone wildcard without a field", `*`, word("*")},
		{"letters of any kind", `größe: 日本 語`, is("größe", "日本 語")},

		{"a field", `foo:bar`, is("foo", "bar")},
		{"space around the colon", `foo : bar`, is("foo", "bar")},
		{"a value of several words", `foo: bar baz`, is("foo", "bar baz")},
		{"a phrase in a field", `foo: "bar baz"`, isPhrase("foo", "bar baz")},
		{"a quoted field", `"foo:bar": baz`, is("foo:bar", "baz")},
		{"a quoted star is no wildcard", `"f*": "b*"`, Is{Field: Pattern{"f*"}, Value: Value{Pattern: Pattern{"b*"}, Quoted: true}}},
		{"a field of several words", `foo bar: baz`, is("foo bar", "baz")},
		{"dots and dashes are letters", `a.b-c: d/e+f`, is("a.b-c", "d/e+f")},
		{"null is a word", `foo: null`, is("foo", "null")},

		{"exists", `foo:*`, exists("foo")},
		{"exists, of a pattern", `foo.*: *`, exists("foo.*")},
		{"a quoted star does not mean exists", `foo: "*"`, isPhrase("foo", "*")},
		{"two stars do not mean exists", `foo: **`, is("foo", "**")},
		{"a wildcard in a value", `foo: b*r`, is("foo", "b*r")},
		{"a wildcard in a field", `f*o: bar`, is("f*o", "bar")},
		{"space beside a wildcard at the end goes", `foo: bar * and x`, And{is("foo", "bar *"), word("x")}},

		{"less", `bytes < 1000`, compare("bytes", Less, "1000")},
		{"at most", `bytes<=1000`, compare("bytes", LessOrEqual, "1000")},
		{"more", `bytes > -1.5`, compare("bytes", Greater, "-1.5")},
		{"at least", `bytes >=1000`, compare("bytes", GreaterOrEqual, "1000")},
		{"a quoted bound", `at > "2026-01-01T10:00"`, Range{Field: name("at"), Op: Greater, Value: Value{Pattern: Pattern{"2026-01-01T10:00"}, Quoted: true}}},
		{"date math", `at >= now-1h/d and at < now`, And{compare("at", GreaterOrEqual, "now-1h/d"), compare("at", Less, "now")}},

		{"and", `a and b and c`, And{word("a"), word("b"), word("c")}},
		{"or", `a or b or c`, Or{word("a"), word("b"), word("c")}},
		{"in any case", `a AND b Or nOt c`, Or{And{word("a"), word("b")}, Not{word("c")}}},
		{"with any space", "a\u00A0and\n\tb", And{word("a"), word("b")}},
		{"and binds more than or", `a or b and c or d`, Or{word("a"), And{word("b"), word("c")}, word("d")}},
		{"not binds most", `not a and b`, And{Not{word("a")}, word("b")}},
		{"parentheses", `(a or b) and c`, And{Or{word("a"), word("b")}, word("c")}},
		{"parentheses that mean nothing", `( ( a ) )`, word("a")},
		{"parentheses that keep a shape", `(a and b) and c`, And{And{word("a"), word("b")}, word("c")}},
		{"not of a group", `not (a or b)`, Not{Or{word("a"), word("b")}}},
		{"not not", `not (not a)`, Not{Not{word("a")}}},

		{"a group of values", `a: (b or c)`, Or{is("a", "b"), is("a", "c")}},
		{"a group with it all", `a: ((b or "c d") and not e* and *)`, And{Or{is("a", "b"), isPhrase("a", "c d")}, Not{is("a", "e*")}, exists("a")}},
		{"a group of one", `a:(b)`, is("a", "b")},

		{"keywords are words where they join nothing", `or`, word("or")},
		{"... at the end", `a and`, word("a and")},
		{"... after a colon", `a: or b`, is("a", "or b")},
		{"... in front", `and and or and not`, And{word("and"), word("or"), word("not")}},
		{"... as a field", `not: b`, is("not", "b")},
		{"... in parentheses", `(not)`, word("not")},
		{"... within words", `band or origin and notes`, Or{word("band"), And{word("origin"), word("notes")}}},
		{"not ends words, unlike in Kibana", `error: cannot connect`, is("error", "cannot connect")},

		{"escaped special characters", `a\:b: \\\(\)\:\<\>\"\*\{\}`, isText("a:b", `\():<>"*{}`)},
		{"escaped and plain stars", `a: \**\*`, Is{Field: name("a"), Value: Value{Pattern: Pattern{"*", "*"}}}},
		{"escaped white space", `a: b\tc\rd\ne`, is("a", "b\tc\rd\ne")},
		{"escaped space around goes too", `a: \t b \n`, is("a", "b")},
		{"what counts as space around a value", "a: \uFEFF\u2003b\u0085", is("a", "b\u0085")},
		{"code units", `a: \u0041\u00e9x\u20AC`, is("a", "Aéx€")},
		{"two code units", `a: \uD83D\ude00`, is("a", "😀")},
		{"escaped keywords", `a \and b \OR c \Not d`, word("a and b OR c Not d")},
		{"an escaped not alone", `\not`, word("not")},
		{"an escaped not before what ends a value", `(\not) and \not: \not`, And{word("not"), is("not", "not")}},
		{"a line break before ot", `a: x\not`, is("a", "x\not")},
		{"... and before a word", `a: x \nothing`, is("a", "x \nothing")},
		{"an escaped keyword needs no end", `a: \order`, is("a", "order")},

		{"quotes: escapes", `"a\"b\\c\td\u0041\uD83D\uDE00"`, phrase("a\"b\\c\tdA😀")},
		{"quotes: space stays", `" a "`, phrase(" a ")},
		{"quotes: a backslash that escapes nothing", `"C:\dir\*\u12"`, phrase(`C:\dir\*\u12`)},
		{"quotes: keywords are words", `"a and not b"`, phrase("a and not b")},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			got, err := Parse(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if !Equal(got, tt.want) {
				t.Errorf("Parse(%q)\n got %#v\nwant %#v", tt.text, got, tt.want)
			}
		})
	}
}

func TestParseKnowsPlaces(t *testing.T) {
	const text = `a and größe: (b or "c")`
	tree, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	c := tree.(And)[1].(Or)[1].(Is)
	if got := text[c.At.Offset:]; !strings.HasPrefix(got, "größe") {
		t.Errorf("the field is at %q", got)
	}
	if got := text[c.Value.At.Offset:]; !strings.HasPrefix(got, `"c"`) {
		t.Errorf("the value is at %q", got)
	}
}

func TestParseErrors(t *testing.T) {
	for _, tt := range []struct {
		text string
		want string
	}{
		{`response:`, `
found the end of the query, expected a value, "*" or "("
response:
         ^`},
		{`response:200 or `, `
found the end of the query, expected a field, a value or "("
response:200 or 
                ^`},
		{`response:(200 or )`, `
found ")", expected a value, "*" or "("
response:(200 or )
                 ^`},
		{`a and not `, `
found the end of the query, expected a field, a value or "("
a and not 
          ^`},
		{`foo > `, `
found the end of the query, expected a value
foo > 
      ^`},
		{`< 1000`, `
found "<", expected a field, a value or "("
< 1000
^`},
		{`foo:"ba `, `
found a quote that is never closed, expected a second "; write \" for a quote within a value
foo:"ba 
    ^`},
		{`foo:"ba "r"`, `
found "r", expected "and", "or" or the end of the query
foo:"ba "r"
         ^`},
		{`at > 2026-01-01T10:00`, `
found ":", expected "and", "or" or the end of the query; a value that has a colon needs quotes, or \: for the colon
at > 2026-01-01T10:00
                  ^`},
		{`(a or b`, `
found the end of the query, expected "and", "or" or ")"
(a or b
       ^`},
		{`a or b)`, `
found ")", expected "and", "or" or the end of the query
a or b)
      ^`},
		{`()`, `
found ")", expected a field, a value or "("
()
 ^`},
		{`(a)or(b)`, `
found "or", expected "and", "or" or the end of the query
(a)or(b)
   ^`},
		{`"a"or b`, `
found "or", expected "and", "or" or the end of the query
"a"or b
   ^`},
		{`(a) order: b`, `
found "order", expected "and", "or" or the end of the query
(a) order: b
    ^`},
		{`größe "x"`, `
found a quote, expected "and", "or" or the end of the query
größe "x"
      ^`},
		{`foo not bar`, `
found "not", expected "and", "or" or the end of the query; write "and not"
foo not bar
    ^`},
		{`foo: not bar`, `
found "not", expected a value, "*" or "("; "not" needs parentheses here: (not value)
foo: not bar
     ^`},
		{`not not foo`, `
found "not", expected a field, a value or "("; "not" needs parentheses here: (not value)
not not foo
    ^`},
		{`items: { name: x }`, `
found "{", expected a value, "*" or "("; there are no nested fields: write field.key: value
items: { name: x }
       ^`},
		{`a: (b: c)`, `
found ":", expected "and", "or" or ")"; a value that has a colon needs quotes, or \: for the colon
a: (b: c)
     ^`},
		{`bytes > 10*`, `
found "10*", expected a value without wildcards; write \* for the character *
bytes > 10*
        ^`},
		{`path: C:\dir`, `
found ":", expected "and", "or" or the end of the query; a value that has a colon needs quotes, or \: for the colon
path: C:\dir
       ^`},
		{`path: \dir`, `
found "\\d", expected one of \\ \( \) \: \< \> \" \* \{ \} \t \r \n \uXXXX \and \or \not; a backslash itself is \\
path: \dir
      ^`},
		{`a: \u12`, `
found "\\u", expected one of \\ \( \) \: \< \> \" \* \{ \} \t \r \n \uXXXX \and \or \not; a backslash itself is \\
a: \u12
   ^`},
		{`a\`, `
found "\\", expected one of \\ \( \) \: \< \> \" \* \{ \} \t \r \n \uXXXX \and \or \not; a backslash itself is \\
a\
 ^`},
		{`a: "\uD83D"`, `
found half of a surrogate pair, expected both halves
a: "\uD83D"
    ^`},
		{`a: \t`, `
found only white space, expected a value, "*" or "("; put white space that matters in quotes
a: \t
   ^`},
		{"a: x and\n\tb: ( y", `
found the end of the query, expected "and", "or" or ")"
 b: ( y
       ^`},
		{"a: \xff", `
found bytes that are not UTF-8, expected text
a: ` + "\uFFFD" + `
   ^`},
	} {
		t.Run(tt.text, func(t *testing.T) {
			node, err := Parse(tt.text)
			if err == nil {
				t.Fatalf("parsed as %#v", node)
			}
			if got := "\n" + err.Error(); got != tt.want {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestParseBoundsDepth(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("(", n) + "a" + strings.Repeat(")", n) }
	if _, err := Parse(deep(maxDepth) + " or " + deep(maxDepth)); err != nil {
		t.Errorf("%d levels: %v", maxDepth, err)
	}
	_, err := Parse(deep(maxDepth + 1))
	syntax, ok := err.(*SyntaxError)
	if !ok || syntax.Offset != maxDepth || syntax.Expected != "at most 25 within one another" {
		t.Errorf("%d levels: %v", maxDepth+1, err)
	}
	if _, err := Parse(strings.Repeat("a: (not ", 100_000)); err == nil {
		t.Error("100,000 levels: no error")
	}
}

func TestParseBoundsWildcards(t *testing.T) {
	stars := func(n int) string { return strings.Repeat("a*", n) }
	for _, text := range []string{"f: " + stars(MaxWildcards) + "b or g: " + stars(MaxWildcards), stars(MaxWildcards) + ": b", "f: \\*" + stars(MaxWildcards)} {
		if _, err := Parse(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, offset := range map[string]int{"f: " + stars(MaxWildcards+1): 3 + 2*MaxWildcards + 1, stars(1900) + ": b": 2*MaxWildcards + 1, stars(1900): 2*MaxWildcards + 1} {
		_, err := Parse(text)
		syntax, ok := err.(*SyntaxError)
		if !ok || syntax.Offset != offset || syntax.Expected != "at most 32 in a value or a name" {
			t.Errorf("%.100s: %v", text, err)
		}
	}
}

// A query from a program may have thousands of values on one line.
func TestErrorsInALongLine(t *testing.T) {
	values := strings.Repeat("size: 1 or ", 1000)
	_, err := Parse(values + ") or " + values)
	if err == nil {
		t.Fatal("no error")
	}
	_, lines, _ := strings.Cut(err.Error(), "\n")
	want := "…" + values[len(values)-80:] + ") or " + values[:75] + "…\n" + strings.Repeat(" ", 81) + "^"
	if lines != want {
		t.Errorf("got\n%s\nwant\n%s", lines, want)
	}
}
