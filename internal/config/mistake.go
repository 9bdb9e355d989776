package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Mistake is one thing that is wrong with a configuration.
type Mistake struct {
	Key      string // routes[0].queue; empty where a source as a whole is wrong
	Value    string // without passwords; empty where none was given
	Origin   Origin
	Expected string // what is wrong, in words: "expected quorum or classic"
}

// String is one line.
func (m Mistake) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", m.Origin)
	if m.Key != "" && m.Key != m.Origin.Name {
		fmt.Fprintf(&b, "%s: ", m.Key)
	}
	if m.Value != "" {
		fmt.Fprintf(&b, "%q: ", m.Value)
	}
	b.WriteString(m.Expected)
	return b.String()
}

// Mistakes is everything that is wrong with a configuration, ordered by where it
// stands.
type Mistakes []Mistake

// Error has one mistake a line.
func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i, mistake := range m {
		lines[i] = mistake.String()
	}
	return strings.Join(lines, "\n")
}

func (m Mistakes) sort() {
	slices.SortStableFunc(m, func(a, b Mistake) int {
		return cmp.Or(
			cmp.Compare(a.Origin.Place, b.Origin.Place),
			cmp.Compare(a.Origin.Line, b.Origin.Line),
		)
	})
}
