package kql

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestString(t *testing.T) {
	for _, tt := range []struct {
		text string
		want string
	}{
		{``, `*: *`},
		{`*`, `*`},
		{`  a   AND ( b  oR c )`, `a and (b or c)`},
		{`a or (b and c)`, `a or b and c`},
		{`(a or b) or c`, `(a or b) or c`},
		{`not (a and b)`, `not (a and b)`},
		{`not (not a)`, `not (not a)`},
		{`not (a: *)`, `not a: *`},
		{`a:(b or not "c d" or *)`, `a: b or not a: "c d" or a: *`},
		{`a>1 and b<=2`, `a > 1 and b <= 2`},
		{`"a": b`, `a: b`},
		{`" a": b`, `" a": b`},
		{`"": b`, `"": b`},
		{`"a:b*": "c*"`, `a\:b\*: "c*"`},
		{`a: \**\*`, `a: \**\*`},
		{`"a\b\"c"`, `"a\\b\"c"`},
		{`a \and b`, `a \and b`},
		{`or and x`, `\or and x`},
		{`a: x\not`, `a: x\u000Aot`},
		{`a: x \u000aOT y`, `a: x \u000AOT y`},
		{`a: "\u001b[31m\u202E\uDBFF\uDFFF"`, `a: "\u001B[31m\u202E\uDBFF\uDFFF"`},
		{"a: b\u00A0c\u2003d", `a: b\u00A0c\u2003d`},
	} {
		node, err := Parse(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := node.String(); got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.text, got, tt.want)
		}
		requireSame(t, node)
	}
}

// requireSame prints the tree, parses the text, and compares.
func requireSame(t *testing.T, node Node) {
	t.Helper()
	text := node.String()
	again, err := Parse(text)
	if err != nil {
		t.Fatalf("%#v prints as a query that does not parse: %v", node, err)
	}
	if !Equal(again, node) {
		t.Fatalf("%s\n parses as %#v\nprinted of %#v", text, again, node)
	}
}

func TestRandomTreesSurvivePrinting(t *testing.T) {
	for seed := range uint64(5000) {
		random := forest{rand.New(rand.NewPCG(seed, 0))}
		requireSame(t, random.node(4))
	}
}

// forest makes random trees that Parse can return, with texts that are hard to
// print.
type forest struct{ *rand.Rand }

func (f forest) node(depth int) Node {
	if depth == 0 {
		return f.clause()
	}
	switch f.IntN(5) {
	case 0:
		return And(f.nodes(depth - 1))
	case 1:
		return Or(f.nodes(depth - 1))
	case 2:
		return Not{f.node(depth - 1)}
	default:
		return f.clause()
	}
}

func (f forest) nodes(depth int) []Node {
	nodes := make([]Node, 2+f.IntN(2))
	for i := range nodes {
		nodes[i] = f.node(depth)
	}
	return nodes
}

func (f forest) clause() Node {
	switch f.IntN(6) {
	case 0:
		return All{}
	case 1:
		return Is{Value: f.value(true)}
	case 2:
		ops := []Op{Less, LessOrEqual, Greater, GreaterOrEqual}
		return Range{Field: f.field(), Op: ops[f.IntN(len(ops))], Value: f.value(false)}
	case 3:
		if field := f.field(); !field.Any() {
			return Exists{Field: field}
		}
		return All{}
	default:
		value := f.value(true)
		if value.Pattern.Any() {
			value = Value{Pattern: Pattern{"*"}, Quoted: true}
		}
		return Is{Field: f.field(), Value: value}
	}
}

func (f forest) field() Pattern {
	if f.IntN(4) == 0 {
		return Pattern{f.text()} // as if it were quoted
	}
	return f.value(true).Pattern
}

func (f forest) value(wild bool) Value {
	if f.IntN(3) == 0 {
		return Value{Pattern: Pattern{f.text()}, Quoted: true}
	}
	pattern := Pattern{f.text()}
	for wild && f.IntN(3) == 0 {
		pattern = append(pattern, f.text())
	}
	pattern = trim(pattern)
	if !pattern.Wild() && pattern.Text() == "" {
		pattern = Pattern{"x"}
	}
	return Value{Pattern: pattern}
}

func (f forest) text() string {
	pieces := []string{
		"a", "ß", "😀", "and", "OR", "not", "ot", "null", "u0041", " ", " ", "\u00A0", "\u2003", "\u0085", "\uFEFF",
		"\t", "\n", "\r", "\x00", "\x1b", `\`, `"`, ":", "*", "(", ")", "{", "}", "<", ">", "=", "\uFFFD", "\U0010FFFF",
	}
	var b strings.Builder
	for range f.IntN(6) {
		b.WriteString(pieces[f.IntN(len(pieces))])
	}
	return b.String()
}

// FuzzParse checks every text: Parse does not panic; a parsed query prints as a
// text that parses to the same tree; an error points into the text, also after the
// fields are resolved.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		``, `*`, `foo bar`, `a: (b or "c d" and not e*) and f >= now-1h/d`, `"a\"b\\": \u0041\:\*`,
		`not (not a) or *: *`, `a \and b \not`, `a: x \not`, `cannot connect`, `(((a)))`, `a: { b: c }`, `"\uD83D\uDE00"`,
		"a\u00A0or\nb", `headers.tenant: acme*`, `event.d*: 5`, `attempt > 3`, `@timestamp: "2026-01-31T10:00:00Z"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		node, err := Parse(text)
		if err != nil {
			if at := err.(*SyntaxError).Offset; at > len(text) || err.Error() == "" {
				t.Fatalf("an error at byte %d of %d", at, len(text))
			}
			return
		}
		requireSame(t, node)
		resolved, err := Resolve(node, testFields)
		if err != nil {
			_ = err.Error()
			return
		}
		requireSame(t, resolved)
		if again, err := Resolve(resolved, testFields); err != nil || !Equal(again, resolved) {
			t.Fatalf("%s resolves to %v, %v the second time", resolved, again, err)
		}
	})
}
