package analyzer

import (
	"cmp"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
)

// TestKeyword: a keyword is one word in lower case, comes back unchanged, and keeps its
// place in the order.
func TestKeyword(t *testing.T) {
	const seed = 3
	random := rand.New(rand.NewPCG(seed, 0))
	keyword := func() string {
		var text strings.Builder
		for range random.IntN(4) {
			if random.IntN(4) == 0 {
				text.WriteRune(rune(random.IntN(unicode.MaxRune)))
				continue
			}
			text.WriteByte(byte(random.IntN(0x80)))
		}
		return text.String()
	}
	for range 100_000 {
		a, b := keyword(), keyword()
		word := Keyword(a)
		if KeywordOf(word) != a {
			t.Fatalf("%q is the word %q, which is the keyword %q", a, word, KeywordOf(word))
		}
		if strings.ContainsFunc(word, func(r rune) bool { return IsSeparator(r) || 'A' <= r && r <= 'Z' }) {
			t.Fatalf("%q is the word %q, which the index changes", a, word)
		}
		if got, want := cmp.Compare(word, Keyword(b)), cmp.Compare(a, b); got != want {
			t.Fatalf("%q and %q are in the order %d, their words %d", a, b, want, got)
		}
	}
}
