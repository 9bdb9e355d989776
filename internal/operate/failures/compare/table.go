package compare

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
)

// table has the numbers of the messages for which conditions hold. The failed messages are the
// first ones.
type table struct {
	messages []Message
	failed   int
	fields   map[string]*column
	bodies   [2]int // failed and handled messages whose body is known
}

// column has the messages with a field.
type column struct {
	any    []int32
	values map[string][]int32
	cuts   []cut // of numbers
}

// cut is a threshold. The messages are those at or above it, and those at or below it.
type cut struct {
	number       float64
	value        string
	above, below []int32
}

func newTable(failed, handled []Message) *table {
	t := &table{messages: slices.Concat(failed, handled), failed: len(failed), fields: map[string]*column{}}
	for i, m := range t.messages {
		if !m.WithoutBody {
			t.bodies[t.side(i)]++
		}
		for name, values := range m.Values {
			t.column(name).add(int32(i), values)
		}
	}
	for _, c := range t.fields {
		c.addCuts()
	}
	return t
}

func (t *table) column(name string) *column {
	if t.fields[name] == nil {
		t.fields[name] = &column{values: map[string][]int32{}}
	}
	return t.fields[name]
}

func (c *column) add(message int32, values []string) {
	c.any = append(c.any, message)
	for _, value := range values {
		list := c.values[value]
		if n := len(list); n == 0 || list[n-1] != message { // a list may have a value twice
			c.values[value] = append(list, message)
		}
	}
}

// side is 0 for a failed message and 1 for a handled one.
func (t *table) side(message int) int {
	if message < t.failed {
		return 0
	}
	return 1
}

// maxCuts bounds the thresholds of a number. A field with fewer values than minNumbers has none,
// since each value is a condition already.
const (
	maxCuts    = 16
	minNumbers = 12
)

// addCuts adds thresholds to a field whose values are numbers. They divide all messages into parts of
// equal size, so that they do not depend on which messages failed.
func (c *column) addCuts() {
	if len(c.values) < minNumbers {
		return
	}
	type numbered struct {
		number  float64
		text    string
		message int32
	}
	var all []numbered
	for text, messages := range c.values {
		number, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(number) || math.IsInf(number, 0) {
			return
		}
		for _, message := range messages {
			all = append(all, numbered{number, text, message})
		}
	}
	byNumber := slices.SortedFunc(slices.Values(all), func(a, b numbered) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.text, b.text))
	})
	slices.SortFunc(all, func(a, b numbered) int { return cmp.Compare(a.message, b.message) })
	messages := func(within func(number float64) bool) (list []int32) {
		for _, one := range all {
			if n := len(list); within(one.number) && (n == 0 || list[n-1] != one.message) {
				list = append(list, one.message)
			}
		}
		return list
	}
	for i := 1; i < maxCuts; i++ {
		at := byNumber[len(byNumber)*i/maxCuts]
		if n := len(c.cuts); n > 0 && c.cuts[n-1].number == at.number {
			continue
		}
		c.cuts = append(c.cuts, cut{
			at.number, at.text,
			messages(func(number float64) bool { return number >= at.number }),
			messages(func(number float64) bool { return number <= at.number }),
		})
	}
}

// conditions returns the conditions that hold for several messages, and not for all of them. One
// message is never enough for a factor.
func (t *table) conditions() (list []Condition) {
	for name, c := range t.fields {
		of := t.of(name)
		all := of[0] + of[1]
		add := func(condition Condition) {
			if n := len(t.where(condition)); n > 1 && n < all {
				list = append(list, condition)
			}
		}
		add(Condition{name, Exists, ""})
		if len(c.any) < all {
			list = append(list, Condition{name, Missing, ""})
		}
		for value := range c.values {
			add(Condition{name, Is, value})
		}
		for _, cut := range c.cuts {
			add(Condition{name, AtLeast, cut.value})
			add(Condition{name, AtMost, cut.value})
		}
	}
	return list
}

// of returns how many failed and handled messages a condition on a field can hold for.
func (t *table) of(field string) [2]int {
	if isOfBody(field) {
		return t.bodies
	}
	return [2]int{t.failed, len(t.messages) - t.failed}
}

func isOfBody(field string) bool { return strings.HasPrefix(field, "body.") }

// where returns the messages for which a condition holds; for Missing those for which it does not.
func (t *table) where(c Condition) []int32 {
	column := t.fields[c.Field]
	switch c.Test {
	case Is:
		return column.values[c.Value]
	case AtLeast, AtMost:
		at := slices.IndexFunc(column.cuts, func(cut cut) bool { return cut.value == c.Value })
		if c.Test == AtLeast {
			return column.cuts[at].above
		}
		return column.cuts[at].below
	}
	return column.any
}

// factor counts the messages of a condition.
func (t *table) factor(c Condition) Factor {
	list, of := t.where(c), t.of(c.Field)
	failed, _ := slices.BinarySearch(list, int32(t.failed))
	with := [2]int{failed, len(list) - failed}
	if c.Test == Missing {
		with = [2]int{of[0] - with[0], of[1] - with[1]}
	}
	f := Factor{Condition: c, Failed: Share{with[0], of[0]}, Handled: Share{with[1], of[1]}, Chance: 1}
	if f.isLarge() {
		f.Chance = chance(f.Failed, f.Handled)
	}
	return f
}

// dividesNumbers reports whether a threshold is a factor among the messages with the number. If only
// the failed messages have one, each threshold would be a factor. Other conditions are no thresholds.
func (t *table) dividesNumbers(c Condition, bound float64) bool {
	if c.Test != AtLeast && c.Test != AtMost {
		return true
	}
	f, with := t.factor(c), t.factor(Condition{c.Field, Exists, ""})
	f.Failed.Of, f.Handled.Of = with.Failed.With, with.Handled.With
	return f.isLarge() && chance(f.Failed, f.Handled) <= bound
}

// bound returns the highest chance of a factor, by the number of conditions that could be factors.
// Tarone's rule: a condition that holds for so few messages that its chance is never below the
// bound need not be counted, and so ids do not hide a cause.
func (t *table) bound(conditions []Condition) (bound float64, compared int) {
	type holds struct {
		with int
		of   [2]int
	}
	known, lowest := map[holds]float64{}, make([]float64, len(conditions))
	for i, c := range conditions {
		key := holds{len(t.where(c)), t.of(c.Field)}
		if c.Test == Missing {
			key.with = key.of[0] + key.of[1] - key.with
		}
		if _, is := known[key]; !is {
			known[key] = least(key.with, key.of[0], key.of[1])
		}
		lowest[i] = known[key]
	}
	slices.Sort(lowest)
	for n := 1; n <= len(lowest); n++ {
		bound = maxChance / float64(n)
		compared, _ = slices.BinarySearch(lowest, math.Nextafter(bound, 1))
		if compared <= n {
			return bound, compared
		}
	}
	return maxChance, 0
}

// key is the same for conditions that hold for the same messages.
func (t *table) key(c Condition) string {
	list := t.where(c)
	if c.Test == Missing {
		list = t.without(list, isOfBody(c.Field))
	}
	key := make([]byte, 0, 4*len(list))
	for _, message := range list {
		key = binary.LittleEndian.AppendUint32(key, uint32(message))
	}
	return string(key)
}

// without returns the messages that are not in a list; of those with a body, if it is about bodies.
func (t *table) without(list []int32, ofBody bool) (rest []int32) {
	for i, m := range t.messages {
		if _, is := slices.BinarySearch(list, int32(i)); !is && !(ofBody && m.WithoutBody) {
			rest = append(rest, int32(i))
		}
	}
	return rest
}
