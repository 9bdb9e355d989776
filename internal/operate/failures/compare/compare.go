// Package compare finds what failed messages have in common and handled ones do not: conditions on
// fields that hold for failed messages more often than chance explains.
package compare

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Message has the values of a message by the names of its fields. A field whose values are not
// compared, since they are too long, has none.
type Message struct {
	Values      map[string][]string
	WithoutBody bool // the body is unknown: conditions on it neither hold nor fail
}

// Test is how a condition tests the values of a field.
type Test string

// The tests.
const (
	Is      Test = "is"       // the field has the value
	Exists  Test = "exists"   // the field has any value
	Missing Test = "missing"  // the field has none
	AtLeast Test = "at_least" // the number is the value or more
	AtMost  Test = "at_most"  // the number is the value or less
	Within  Test = "within"   // the time is in a period
)

// Condition is a test of a field.
type Condition struct {
	Field string
	Test  Test
	Value string // of Is, AtLeast and AtMost
}

// Share counts the messages for which a condition holds, among those for which it is known.
type Share struct{ With, Of int }

// Part returns the share as a number from 0 to 1.
func (s Share) Part() float64 {
	if s.Of == 0 {
		return 0
	}
	return float64(s.With) / float64(s.Of)
}

// Factor is a condition that holds for failed messages more often than for handled ones.
type Factor struct {
	Condition
	Failed, Handled Share
	Chance          float64     // probability of such shares, or of more extreme ones, without a cause
	Same            []Condition // hold for the same messages
}

// Excess is the part of the failed messages with the condition, less the part of the handled ones.
func (f Factor) Excess() float64 { return f.Failed.Part() - f.Handled.Part() }

// Result is the result of a comparison.
type Result struct {
	Factors  []Factor // those that explain the most failures first
	Compared int      // conditions that could have been factors
}

// The bounds of a factor. The chance that a comparison of messages without any difference finds a
// factor is at most maxChance, however many conditions there are: together 0.001 for messages of the
// same time, messages of another time, and periods. A factor explains a part of the failures that is
// worth to be shown, too: with many messages, small differences are not by chance.
const (
	maxChance = 0.001 / 3
	minExcess = 0.1
	minOdds   = 3
)

// Messages compares failed messages with handled ones.
func Messages(failed, handled []Message) Result {
	t := newTable(failed, handled)
	conditions := t.conditions()
	bound, compared := t.bound(conditions)
	var factors []Factor
	for _, c := range conditions {
		f := t.factor(c)
		if f.isLarge() && f.Chance <= bound && t.dividesNumbers(c, bound) {
			factors = append(factors, f)
		}
	}
	factors = bestThresholds(factors)
	return Result{t.merge(factors), compared}
}

// Holds reports whether a condition with these shares is a factor, by itself and not among others.
func Holds(failed, handled Share) bool {
	f := Factor{Failed: failed, Handled: handled, Chance: chance(failed, handled)}
	return f.isLarge() && f.Chance <= maxChance
}

// isLarge reports whether the condition explains enough failures.
func (f Factor) isLarge() bool {
	a, b := float64(f.Failed.With), float64(f.Handled.With)
	c, d := float64(f.Failed.Of)-a, float64(f.Handled.Of)-b
	return f.Excess() >= minExcess && a*d >= minOdds*b*c
}

// bestThresholds keeps one threshold of each field: neighbouring ones hold for almost the same messages.
func bestThresholds(factors []Factor) []Factor {
	best := map[Condition]int{}
	for i, f := range factors {
		if f.Test != AtLeast && f.Test != AtMost {
			continue
		}
		of := Condition{Field: f.Field, Test: f.Test}
		if at, found := best[of]; !found || f.Excess() > factors[at].Excess() {
			best[of] = i
		}
	}
	var kept []Factor
	for i, f := range factors {
		if at, is := best[Condition{Field: f.Field, Test: f.Test}]; !is || at == i {
			kept = append(kept, f)
		}
	}
	return kept
}

// merge makes one factor of those that hold for the same messages, and sorts them.
func (t *table) merge(factors []Factor) []Factor {
	slices.SortFunc(factors, before)
	var merged []Factor
	places := map[string]int{}
	for _, f := range factors {
		key := t.key(f.Condition)
		at, found := places[key]
		if !found {
			places[key] = len(merged)
			merged = append(merged, f)
			continue
		}
		merged[at].Same = append(merged[at].Same, f.Condition)
	}
	return merged
}

// before orders factors by the failures that they explain. Of two that explain the same, the
// narrower one is first, then the one that is easier to understand.
func before(a, b Factor) int {
	return cmp.Or(
		cmp.Compare(b.Excess(), a.Excess()),
		cmp.Compare(a.Handled.Part(), b.Handled.Part()),
		cmp.Compare(testOrder(a.Test), testOrder(b.Test)),
		cmp.Compare(strings.Count(a.Field, "."), strings.Count(b.Field, ".")),
		cmp.Compare(a.Field, b.Field), cmp.Compare(a.Value, b.Value),
	)
}

func testOrder(t Test) int { return slices.Index([]Test{Is, Exists, Missing, AtLeast, AtMost}, t) }

// chance returns the probability that as many or more of the messages with a condition are failed
// ones, if the failed ones were drawn by lot (Fisher's exact test, one-sided).
func chance(failed, handled Share) float64 {
	with, all := failed.With+handled.With, failed.Of+handled.Of
	most := min(with, failed.Of)
	sum := 0.0
	for k := failed.With; k <= most; k++ {
		p := math.Exp(choose(failed.Of, k) + choose(handled.Of, with-k) - choose(all, with))
		sum += p
		if p < sum*1e-12 && k > failed.With {
			break
		}
	}
	return min(sum, 1)
}

// least returns the lowest chance that a condition can have which holds for a number of all messages.
func least(with, failed, handled int) float64 {
	k := min(with, failed)
	return chance(Share{k, failed}, Share{with - k, handled})
}

// choose is the logarithm of the binomial coefficient.
func choose(n, k int) float64 {
	if k < 0 || k > n {
		return math.Inf(-1)
	}
	return logFactorial(n) - logFactorial(k) - logFactorial(n-k)
}

func logFactorial(n int) float64 {
	value, _ := math.Lgamma(float64(n) + 1)
	return value
}
