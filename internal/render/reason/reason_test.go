package reason

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestReasons(t *testing.T) {
	for _, test := range []struct{ text, want, needed string }{
		{"", "", "expected a reason"},
		{" \n", "", "expected a reason"},
		{"fixed", "", ""},
		{strings.Repeat("🐇", Max), "", ""},
		{strings.Repeat("é", Max+1), "the reason has 1001 characters: expected at most 1000", "the reason has 1001 characters: expected at most 1000"},
		{"\xff", "the reason is not UTF-8", "the reason is not UTF-8"},
	} {
		if err := Check(test.text); textOf(err) != test.want {
			t.Errorf("%.20q: %v", test.text, err)
		}
		if err := Need(test.text); textOf(err) != test.needed {
			t.Errorf("%.20q, which is needed: %v", test.text, err)
		}
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// The name of an operator is there, however long the reason is.
func TestBy(t *testing.T) {
	for _, test := range []struct{ operator, text, want string }{
		{"ada", "fixed", "fixed (ada)"},
		{"ada", " fixed ", "fixed (ada)"},
		{"ada", "", "(ada)"},
		{"ada", strings.Repeat("x", 1018), strings.Repeat("x", 1018) + " (ada)"},
		{"ada", strings.Repeat("x", 1019), strings.Repeat("x", 1015) + "… (ada)"},
		{"ada", strings.Repeat("🐇", Max), strings.Repeat("🐇", 253) + "… (ada)"},
		{strings.Repeat("o", 2000), "x", "… (" + strings.Repeat("o", 2000) + ")"},
	} {
		got := By(test.operator, test.text)
		if got != test.want {
			t.Errorf("%.20q by %.20q: %q", test.text, test.operator, got)
		}
		if len(test.operator) < 100 && len(got) > 1<<10 || !utf8.ValidString(got) {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	}
}
