package topicpattern

import (
	"strings"
	"testing"
)

// FuzzMatches compares Matches with a recursive definition that takes
// exponential time.
func FuzzMatches(f *testing.F) {
	f.Add("#", "")
	f.Add("a.*.#", "a.b")
	f.Add("#.#.z", "a.z.z")
	f.Add("*.#.*", "a")
	f.Add("..", "a..")
	f.Fuzz(func(t *testing.T, pattern, key string) {
		parts, words := strings.Split(pattern, "."), strings.Split(key, ".")
		parts, words = parts[:min(len(parts), 6)], words[:min(len(words), 8)]
		if got, want := matches(parts, words), matchesSlowly(parts, words); got != want {
			t.Errorf("%q matches %q: %t, want %t", parts, words, got, want)
		}
	})
}

func matchesSlowly(pattern, words []string) bool {
	switch {
	case len(pattern) == 0:
		return len(words) == 0
	case pattern[0] == "#":
		return matchesSlowly(pattern[1:], words) || len(words) > 0 && matchesSlowly(pattern, words[1:])
	case len(words) == 0:
		return false
	}
	return (pattern[0] == "*" || pattern[0] == words[0]) && matchesSlowly(pattern[1:], words[1:])
}

// TestMatchesInTime would not end if the time doubled with each word.
func TestMatchesInTime(t *testing.T) {
	if Matches(strings.Repeat("#.", 120)+"z", strings.Repeat("a.", 120)+"y") {
		t.Error("matches")
	}
}
