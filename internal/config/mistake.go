package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Mistake is one error in a configuration.
type Mistake struct {
	Key      string // routes[0].queue; empty if it concerns a whole source
	Value    string // without passwords; empty if none exists
	Origin   Origin
	Expected string // the values that are possible: "expected quorum or classic"
}

// String returns one line.
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

// Mistakes are all errors in a configuration, sorted by origin.
type Mistakes []Mistake

// Error returns one mistake a line.
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
