package kql

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// randomPattern returns a pattern of few letters, so that texts match it often.
func randomPattern(random *rand.Rand) Pattern {
	pattern := make(Pattern, 1+random.IntN(4))
	for i := range pattern {
		pattern[i] = randomLetters(random, 3)
	}
	return pattern
}

func randomLetters(random *rand.Rand, most int) string {
	letters := []string{"a", "b", "*", "é", "\n", "."}
	var text strings.Builder
	for range random.IntN(most + 1) {
		text.WriteString(letters[random.IntN(len(letters))])
	}
	return text.String()
}

// A pattern matches the texts that the regular expression with the same parts matches.
func TestMatchIsARegularExpression(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 0))
	matches := 0
	for range 50_000 {
		pattern, text := randomPattern(random), randomLetters(random, 7)
		expression := "(?s)^" + pattern.Join(".*", regexp.QuoteMeta) + "$"
		want := regexp.MustCompile(expression).MatchString(text)
		if got := pattern.Match(text); got != want {
			t.Fatalf("%q of %q: %v, and %s says %v", text, pattern, got, expression, want)
		}
		if want {
			matches++
		}
	}
	if matches < 1000 {
		t.Errorf("only %d texts matched", matches)
	}
}

// A text made from a pattern matches it, with anything in place of its wildcards.
func TestMatchWhatAPatternDescribes(t *testing.T) {
	random := rand.New(rand.NewPCG(12, 0))
	for range 10_000 {
		pattern := randomPattern(random)
		text := pattern[0]
		for _, part := range pattern[1:] {
			text += randomLetters(random, 4) + part
		}
		if !pattern.Match(text) {
			t.Fatalf("%q does not match %q", pattern, text)
		}
	}
}

// The questions about a pattern agree with one another.
func TestPatternForms(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 0))
	for range 10_000 {
		p := randomPattern(random)
		prefix, isPrefix := p.Prefix()
		if isPrefix && (!p.Match(prefix) || !p.Match(prefix+"x") || !p.Wild()) {
			t.Fatalf("%q has the prefix %q", p, prefix)
		}
		if p.Any() != (isPrefix && prefix == "") {
			t.Fatalf("%q is any: %v, its prefix %q", p, p.Any(), prefix)
		}
		if !p.Wild() && p.Text() != p[0] {
			t.Fatalf("%q is the text %q", p, p.Text())
		}
		if wildcards := len(p) - 1; strings.Count(p.Join("\x00", strings.ToUpper), "\x00") != wildcards {
			t.Fatalf("%q has %d wildcards", p, wildcards)
		}
	}
}
