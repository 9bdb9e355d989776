package errorgroup

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const testLimit = 512

// Messages of one kind have one group, and no two kinds share one.
func TestKinds(t *testing.T) {
	of := map[string]string{} // the kind of each group
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		group := ""
		for i, message := range kinds[kind] {
			got := Fold(message, testLimit, nil)
			if i == 0 {
				if group = got; of[group] != "" {
					t.Errorf("%s and %s have the group %q", kind, of[group], group)
				}
				of[group] = kind
			}
			if got != group {
				t.Errorf("%s is split:\n%q\n%q", kind, group, got)
			}
		}
	}
}

// check reports what is wrong with the group of a message.
func check(t *testing.T, message string) {
	t.Helper()
	group := Fold(message, testLimit, []string{"orders-2"})
	if len(group) > testLimit || !utf8.ValidString(group) || strings.ContainsAny(group, "\n\x1b\x00") {
		t.Errorf("the group of %q is %q", message, group)
	}
	if again := Fold(message, testLimit, []string{"orders-2"}); again != group {
		t.Errorf("%q is %q, and then %q", message, group, again)
	}
}

func TestEveryKindIsStable(t *testing.T) {
	for kind, messages := range kinds {
		for _, message := range messages {
			check(t, message)
			group := Fold(message, testLimit, nil)
			if again := Fold(group, testLimit, nil); again != group {
				t.Errorf("%s: %q becomes %q", kind, group, again)
			}
		}
	}
}

func FuzzFold(f *testing.F) {
	for _, messages := range kinds {
		for _, message := range messages {
			f.Add(message)
		}
	}
	f.Fuzz(check)
}

func BenchmarkFold(b *testing.B) {
	message := kinds["rust new"][0]
	b.SetBytes(int64(len(message)))
	for b.Loop() {
		Fold(message, testLimit, nil)
	}
}
