package terminal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestTableFitsTheTerminal(t *testing.T) {
	for _, width := range []int{60, 80, 120} {
		var out strings.Builder
		table := NewTable(&out, Screen{Width: width}, Column{Title: "TIME", Fixed: true}, Column{Title: "QUEUE"}, Column{Title: "ERROR"})
		for n := range 250 { // more than a page
			if err := table.Row("2026-05-04 03:00:03.000", strings.Repeat("qü", 20), fmt.Sprint(strings.Repeat("wörd ", n), "end")); err != nil {
				t.Fatal(err)
			}
		}
		if err := table.Flush(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(strings.NewReader(out.String()))
		count := 0
		for ; lines.Scan(); count++ {
			if n := utf8.RuneCountInString(lines.Text()); n > width {
				t.Errorf("a line of %d characters in a terminal of %d: %s", n, width, lines.Text())
			}
			if !strings.HasPrefix(lines.Text(), "2026-05-04 03:00:03.000") && count > 0 {
				t.Errorf("the time is cut: %s", lines.Text())
			}
		}
		if count != 251 {
			t.Errorf("%d lines", count)
		}
	}
}

func TestCellsAreHarmless(t *testing.T) {
	for text, want := range map[string]string{
		"a\x1b[2Jb\nc\td": "a [2Jb c d", "\u202eabc": "\ufffdabc", "a\xffb": "a\ufffdb", "wörld": "wörld", "\u009bx": " x",
	} {
		if got := Cell(text, 0); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{"abcdef": "abc…", "abcd": "abcd", "日本語": "日…", "日本": "日本", "a日本": "a日…"} {
		if got := Cell(text, 4); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestInertJSON(t *testing.T) {
	for _, text := range []string{"=evil\x1b]0;x\a\x1b[2J\u009b31m\x7f\r\n\u202e\u2066\u2028\u200b\U000e0041", "plain", "", "ünïcødé 漢字 🎉", "a\u0085b\ufeff\U000e0001c\u2029"} {
		plain, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		safe := SafeJSON(plain)
		var back string
		if err := json.Unmarshal(safe, &back); err != nil || back != text {
			t.Errorf("%q has become %q, %v", text, back, err)
		}
		if i := strings.IndexFunc(string(safe), func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%q has %q", text, safe[i:])
		}
	}
	if text := []byte(`"ünïcødé 漢字 🎉"`); !bytes.Equal(SafeJSON(text), text) {
		t.Errorf("%s", SafeJSON(text))
	}
}

func TestPaint(t *testing.T) {
	if got := (Screen{Colour: true}).Paint("x", Red); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("%q", got)
	}
	if got := (Screen{}).Paint("x", Red); got != "x" {
		t.Errorf("%q without colours", got)
	}
}
