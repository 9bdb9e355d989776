package compare

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// draw returns messages with 60 fields: choices of few values, skewed ones, numbers, ids, flags, fields
// that some messages lack, and fields that follow others.
func draw(random *rand.Rand, n int) []Message {
	messages := make([]Message, n)
	for i := range messages {
		values := map[string][]string{}
		for f := range 20 {
			values[fmt.Sprint("headers.choice-", f)] = []string{fmt.Sprint("v", random.IntN(f+2))}
		}
		for f := range 10 {
			values[fmt.Sprint("body.json.skewed-", f)] = []string{fmt.Sprint("v", int(random.ExpFloat64()*float64(f+1)))}
		}
		for f := range 10 {
			values[fmt.Sprint("body.json.number-", f)] = []string{strconv.FormatFloat(random.NormFloat64()*100, 'f', 2, 64)}
		}
		for f := range 5 {
			values[fmt.Sprint("headers.id-", f)] = []string{strconv.FormatUint(random.Uint64(), 36)}
		}
		for f := range 10 {
			if random.IntN(f+2) == 0 {
				values[fmt.Sprint("headers.seldom-", f)] = []string{fmt.Sprint("v", random.IntN(3))}
			}
		}
		for f := range 5 {
			values[fmt.Sprint("headers.follows-", f)] = []string{"of " + values[fmt.Sprint("headers.choice-", f+10)][0]}
		}
		messages[i] = Message{Values: values}
	}
	return messages
}

// fails divides messages into failed and handled ones. A message with the condition fails with one
// probability, any other with another.
func fails(random *rand.Rand, messages []Message, holds func(Message) bool, with, without float64) (failed, handled []Message) {
	for _, m := range messages {
		p := without
		if holds(m) {
			p = with
		}
		if random.Float64() < p {
			failed = append(failed, m)
		} else {
			handled = append(handled, m)
		}
	}
	return failed, handled
}

func has(field, value string) func(Message) bool {
	return func(m Message) bool { return slices.Contains(m.Values[field], value) }
}

// seeds is the number of seeds for a test, more of them in the long tests.
func seeds(n int) int {
	if os.Getenv("WATERSHIP_TEST_SOAK") != "" {
		return 10 * n
	}
	return n
}

func seeded(seed int) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 7)) }

func conditionsOf(factors []Factor) (list []Condition) {
	for _, f := range factors {
		list = append(list, f.Condition)
		list = append(list, f.Same...)
	}
	return list
}

func TestTheCauseIsFirst(t *testing.T) {
	first, total := 0, 0
	for seed := range seeds(1) {
		for name, cause := range map[string]struct {
			Condition
			holds func(Message) bool
		}{
			"a header":    {Condition{"headers.choice-15", Is, "v3"}, has("headers.choice-15", "v3")},
			"of the body": {Condition{"body.json.skewed-7", Is, "v2"}, has("body.json.skewed-7", "v2")},
			"a seldom one": {Condition{"headers.seldom-8", Exists, ""}, func(m Message) bool {
				return m.Values["headers.seldom-8"] != nil
			}},
			"one that lacks": {Condition{"headers.seldom-0", Missing, ""}, func(m Message) bool {
				return m.Values["headers.seldom-0"] == nil
			}},
			"a number": {Condition{"body.json.number-3", AtLeast, ""}, func(m Message) bool {
				number, err := strconv.ParseFloat(m.Values["body.json.number-3"][0], 64)
				return err == nil && number >= 120
			}},
		} {
			random := seeded(seed)
			failed, handled := fails(random, draw(random, 2500), cause.holds, 0.9, 0.005)
			r := Messages(failed, handled)
			total++
			if len(r.Factors) == 0 {
				t.Logf("%s, seed %d: nothing, %d failures", name, seed, len(failed))
				continue
			}
			top := r.Factors[0].Condition
			if top.Test == AtLeast {
				top.Value = ""
			}
			if top == cause.Condition || slices.Contains(r.Factors[0].Same, cause.Condition) {
				first++
			} else {
				t.Logf("%s, seed %d: %+v is first", name, seed, r.Factors[0])
			}
		}
	}
	if first < total*19/20 {
		t.Errorf("the cause is first in %d of %d", first, total)
	}
}

func TestWithoutACauseNothingIsFound(t *testing.T) {
	for n, rounds := range map[int]int{1: 1, 2: 1, 3: 2, 10: 2, 50: 2, 300: 2} {
		for seed := range seeds(rounds) {
			random := seeded(seed*1000 + n)
			messages := draw(random, n+600)
			if r := Messages(messages[:n], messages[n:]); len(r.Factors) > 0 {
				t.Errorf("%d failures, seed %d: %+v", n, seed, r.Factors)
			}
		}
	}
}

// Three failures are enough for a value that almost no other message has; one never is.
func TestFewFailures(t *testing.T) {
	for n, want := range map[int]bool{1: false, 3: true} {
		messages := draw(seeded(n), n+1000)
		for _, m := range messages[:n] {
			m.Values["headers.tenant"] = []string{"acme"}
		}
		for i, m := range messages[n:] {
			m.Values["headers.tenant"] = []string{fmt.Sprint("t", i%100)}
		}
		r := Messages(messages[:n], messages[n:])
		if found := len(r.Factors) > 0 && r.Factors[0].Condition == (Condition{"headers.tenant", Is, "acme"}); found != want {
			t.Errorf("%d failures: %+v", n, r.Factors)
		}
	}
}

func TestNothingToCompare(t *testing.T) {
	for name, sides := range map[string][2][]Message{
		"nothing":         {},
		"none handled":    {draw(seeded(1), 100), nil},
		"no failures":     {nil, draw(seeded(1), 100)},
		"without fields":  {make([]Message, 10), make([]Message, 10)},
		"bodies unknown":  {{{WithoutBody: true}}, {{WithoutBody: true}}},
		"equal messages":  {slices.Repeat(draw(seeded(1), 1), 50), slices.Repeat(draw(seeded(1), 1), 500)},
		"one of each":     {draw(seeded(1), 1), draw(seeded(2), 1)},
		"empty and empty": {{{Values: map[string][]string{"a": nil}}}, {{Values: map[string][]string{"a": {}}}}},
	} {
		if r := Messages(sides[0], sides[1]); len(r.Factors) != 0 {
			t.Errorf("%s: %+v", name, r.Factors)
		}
	}
}

// Conditions that hold for the same messages are one factor, under the name that is easiest to
// understand; a field that only mostly agrees comes after it.
func TestConditionsOfTheSameMessages(t *testing.T) {
	random := seeded(3)
	messages := draw(random, 2000)
	for i, m := range messages {
		if i < 400 || i%50 == 0 {
			m.Values["headers.tenant"] = []string{"acme"}
			m.Values["body.json.customer.name"] = []string{"Acme Inc."}
			m.Values["body.json.customer.vat"] = []string{strconv.Itoa(random.IntN(900))}
		} else {
			m.Values["headers.tenant"] = []string{fmt.Sprint("t", i%7)}
		}
		if i < 400 || i%3 == 0 {
			m.Values["headers.region"] = []string{"eu"}
		}
	}
	r := Messages(messages[:400], messages[400:])
	if len(r.Factors) < 2 || r.Factors[0].Condition != (Condition{"headers.tenant", Is, "acme"}) || r.Factors[1].Field != "headers.region" {
		t.Fatalf("%+v", r.Factors)
	}
	f := r.Factors[0]
	if f.Failed != (Share{400, 400}) || f.Handled != (Share{32, 1600}) {
		t.Errorf("%+v", f)
	}
	for _, same := range []Condition{{"body.json.customer.name", Is, "Acme Inc."}, {"body.json.customer.vat", Exists, ""}} {
		if !slices.Contains(f.Same, same) {
			t.Errorf("%+v is not in %+v", same, f.Same)
		}
	}
	if slices.Contains(conditionsOf(r.Factors[1:]), Condition{"body.json.customer.name", Is, "Acme Inc."}) {
		t.Errorf("a condition is there twice: %+v", r.Factors)
	}
}

// Lists have each of their values once; a field without values to compare exists all the same.
func TestListsAndLongValues(t *testing.T) {
	messages := draw(seeded(4), 1100)
	for i, m := range messages {
		m.Values["body.json.tags"] = []string{"a", "a", fmt.Sprint("b", i%9)}
		if i < 100 {
			m.Values["body.json.tags"] = append(m.Values["body.json.tags"], "broken", "broken")
			m.Values["body.json.text"] = nil
		}
	}
	r := Messages(messages[:100], messages[100:])
	if len(r.Factors) != 1 || r.Factors[0].Condition != (Condition{"body.json.tags", Is, "broken"}) || r.Factors[0].Failed.With != 100 {
		t.Fatalf("%+v", r.Factors)
	}
	if !slices.Contains(r.Factors[0].Same, Condition{"body.json.text", Exists, ""}) {
		t.Errorf("%+v", r.Factors[0].Same)
	}
}

// A body that is not known is no body that lacks a field.
func TestUnknownBodies(t *testing.T) {
	messages := draw(seeded(5), 1000)
	for i, m := range messages {
		m.Values = maps.Clone(m.Values)
		maps.DeleteFunc(m.Values, func(name string, _ []string) bool { return strings.HasPrefix(name, "body.") })
		if messages[i].WithoutBody = i >= 200 && i%2 == 0; !messages[i].WithoutBody {
			m.Values["body.json.order"] = []string{"x"}
		}
		messages[i].Values = m.Values
	}
	if r := Messages(messages[:200], messages[200:]); len(r.Factors) > 0 {
		t.Errorf("%+v", r.Factors)
	}
	for i := range 200 {
		messages[i].Values["body.json.order"] = []string{"y"}
	}
	r := Messages(messages[:200], messages[200:])
	if len(r.Factors) != 1 || r.Factors[0].Handled != (Share{0, 400}) {
		t.Errorf("%+v", r.Factors)
	}
}

func TestFishersExactTest(t *testing.T) {
	for _, test := range []struct {
		failed, handled Share
		want            float64
	}{
		{Share{3, 4}, Share{1, 4}, 0.242857142857}, // the lady tasting tea
		{Share{4, 4}, Share{0, 4}, 0.014285714286},
		{Share{0, 4}, Share{0, 4}, 1},
		{Share{8, 10}, Share{1, 6}, 0.024475524476},
		{Share{1, 1}, Share{0, 1999}, 1.0 / 2000},
	} {
		if got := chance(test.failed, test.handled); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%v and %v: %.12f, want %.12f", test.failed, test.handled, got, test.want)
		}
	}
	if p := chance(Share{400_000, 500_000}, Share{1_000_000, 90_000_000}); p != 0 {
		t.Errorf("%v", p)
	}
}

func TestPeriod(t *testing.T) {
	random := seeded(6)
	counts := func(n, mean int) []int64 {
		list := make([]int64, n)
		for range n * mean {
			list[random.IntN(n)]++
		}
		return list
	}
	for range 20 {
		if begin, end, found := Period(counts(24, 20), counts(24, 4000)); found {
			t.Errorf("from %d to %d without a cause", begin, end)
		}
	}
	failed := counts(24, 1)
	failed[14] += 300
	if begin, end, found := Period(failed, counts(24, 4000)); !found || begin != 14 || end != 15 {
		t.Errorf("from %d to %d, %v", begin, end, found)
	}
	clear(failed)
	for i := 10; i < 24; i++ {
		failed[i] = 30
	}
	if begin, end, found := Period(failed, counts(24, 4000)); !found || begin != 10 || end != 24 {
		t.Errorf("from %d to %d, %v", begin, end, found)
	}
	for name, sides := range map[string][2][]int64{
		"nothing": {{}, {}}, "one step": {{5}, {100}}, "no failures": {{0, 0}, {5, 5}}, "none handled": {{5, 0}, {0, 0}}, "one failure": {{1, 0}, {100, 1000}},
	} {
		if begin, end, found := Period(sides[0], sides[1]); found {
			t.Errorf("%s: from %d to %d", name, begin, end)
		}
	}
}

func BenchmarkMessages(b *testing.B) {
	messages := draw(seeded(1), 3000)
	for b.Loop() {
		Messages(messages[:1000], messages[1000:])
	}
}
