package typo

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// The distance of two words is that of the definition by Levenshtein, without regard to
// case.
func TestDistance(t *testing.T) {
	random := rand.New(rand.NewPCG(21, 0))
	for range 3000 {
		a, b, c := randomWord(random), randomWord(random), randomWord(random)
		got := Distance(a, b)
		if want := levenshtein([]rune(strings.ToLower(a)), []rune(strings.ToLower(b))); got != want {
			t.Fatalf("%q and %q: %d, want %d", a, b, got, want)
		}
		if Distance(b, a) != got || Distance(a, a) != 0 || Distance(strings.ToUpper(a), strings.ToUpper(b)) != got {
			t.Fatalf("%q and %q: the distance depends on the order or on the case", a, b)
		}
		if Distance(a, c) > got+Distance(b, c) {
			t.Fatalf("from %q to %q is farther than by way of %q", a, c, b)
		}
	}
}

func randomWord(random *rand.Rand) string {
	letters := []rune("abAé.")
	name := make([]rune, random.IntN(6))
	for i := range name {
		name[i] = letters[random.IntN(len(letters))]
	}
	return string(name)
}

// levenshtein is the recursive definition.
func levenshtein(a, b []rune) int {
	if len(a) == 0 || len(b) == 0 {
		return len(a) + len(b)
	}
	change := levenshtein(a[1:], b[1:])
	if a[0] != b[0] {
		change++
	}
	return min(change, levenshtein(a[1:], b)+1, levenshtein(a, b[1:])+1)
}
