package retry

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
	"time"
)

var errBroken = errors.New("broken")

func TestNext(t *testing.T) {
	list := Policy{
		Delays: []time.Duration{time.Second, time.Minute},
		Classes: map[string]Policy{
			"ordering": {First: 10 * time.Millisecond, Attempts: 5},
			"once":     {},
		},
	}
	growing := Policy{First: time.Second, Factor: 3, Cap: 5 * time.Second, Attempts: 5}
	for name, test := range map[string]struct {
		policy  Policy
		err     error
		attempt int
		want    string
	}{
		"first of a list":                {list, errBroken, 1, "retry 1s"},
		"second of a list":               {list, errBroken, 2, "retry 1m0s"},
		"last of a list":                 {list, errBroken, 3, "poison: failed 3 of 3 attempts"},
		"beyond the last":                {list, errBroken, 9, "poison: failed 9 of 3 attempts"},
		"zero policy":                    {Policy{}, errBroken, 1, "poison: failed 1 of 1 attempts"},
		"first delay grows":              {growing, errBroken, 1, "retry 1s"},
		"by its factor":                  {growing, errBroken, 2, "retry 3s"},
		"up to its cap":                  {growing, errBroken, 3, "retry 5s"},
		"and stays there":                {growing, errBroken, 4, "retry 5s"},
		"last of a growing":              {growing, errBroken, 5, "poison: failed 5 of 5 attempts"},
		"permanent":                      {list, Permanent(errBroken), 1, "poison: permanent"},
		"permanent, wrapped":             {list, fmt.Errorf("saving: %w", Permanent(errBroken)), 1, "poison: permanent"},
		"permanent beats unavailable":    {list, Unavailable(Permanent(errBroken)), 1, "poison: permanent"},
		"asked delay":                    {list, After(1200*time.Millisecond, errBroken), 1, "retry 1.5s"},
		"asked delay that is standard":   {list, After(7*time.Second, errBroken), 1, "retry 7s"},
		"asked delay of nothing":         {list, After(-time.Hour, errBroken), 1, "retry 100ms"},
		"asked delay beyond the longest": {list, After(999*time.Hour, errBroken), 1, "retry 24h0m0s"},
		"asked delay, no attempt left":   {list, After(time.Second, errBroken), 3, "poison: failed 3 of 3 attempts"},
		"asked for at least":             {list, AtLeast(1200*time.Millisecond, errBroken), 1, "retry 1.5s"},
		"asked for less":                 {list, AtLeast(200*time.Millisecond, errBroken), 1, "retry 1s"},
		"asked for at least nothing":     {list, AtLeast(-time.Hour, errBroken), 2, "retry 1m0s"},
		"class with more attempts":       {list, Class("ordering", errBroken), 4, "retry 80ms"},
		"class, its last":                {list, Class("ordering", errBroken), 5, "poison: failed 5 of 5 attempts"},
		"class with a single attempt":    {list, Class("once", errBroken), 1, "poison: failed 1 of 1 attempts"},
		"class that has no policy":       {list, Class("other", errBroken), 1, "retry 1s"},
		"outermost class":                {list, Class("once", Class("ordering", errBroken)), 1, "poison: failed 1 of 1 attempts"},
		"unavailable":                    {list, Unavailable(errBroken), 99, "defer 1s"},
		"unavailable for so long":        {list, Unavailable(After(time.Minute, errBroken)), 1, "defer 1m10s"},
		"unavailable for less":           {list, Unavailable(AtLeast(time.Millisecond, errBroken)), 1, "defer 1s"},
		"panic":                          {list, &PanicError{Value: "oh"}, 1, "retry 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.policy.Validate(); err != nil {
				t.Fatal(err)
			}
			if got := spell(test.policy.Next(Failure{Err: test.err, Attempt: test.attempt}, nil)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func spell(d Decision) string {
	if d.Action == Poison {
		return "poison: " + d.Reason
	}
	return d.Action.String() + " " + d.Delay.String()
}

func TestValidate(t *testing.T) {
	second := time.Second
	for name, test := range map[string]struct {
		policy Policy
		want   string // in the error; "" for none
	}{
		"zero":                    {Policy{}, ""},
		"default":                 {Default(), ""},
		"fraction":                {Policy{Delays: []time.Duration{1500 * time.Microsecond}}, "delays 1.5ms: expected whole milliseconds"},
		"negative":                {Policy{Delays: []time.Duration{-second}}, "delays -1s: expected"},
		"too long":                {Policy{Delays: []time.Duration{MaxDelay + time.Millisecond}}, "expected whole milliseconds between"},
		"longest":                 {Policy{Delays: []time.Duration{MaxDelay}}, ""},
		"too many":                {Policy{Delays: slices.Repeat([]time.Duration{second}, 101)}, "delays: expected at most 100 different delays"},
		"both":                    {Policy{Delays: []time.Duration{second}, First: second, Attempts: 2}, "delays: expected none beside first"},
		"no attempts":             {Policy{First: second}, "attempts 0: expected 1 to"},
		"too many attempts":       {Policy{First: second, Attempts: 10_001}, "attempts 10001"},
		"many equal attempts":     {Policy{First: second, Factor: 1, Attempts: 10_000}, ""},
		"many different attempts": {Policy{First: second, Factor: 1.01, Attempts: 10_000}, "first: expected at most 100 different delays"},
		"shrinking":               {Policy{First: second, Factor: 0.5, Attempts: 2}, "factor 0.5"},
		"jitter":                  {Policy{First: second, Jitter: 1.5, Attempts: 2}, "jitter 1.5"},
		"cap below first":         {Policy{First: second, Cap: time.Millisecond, Attempts: 2}, "cap 1ms: expected at least first, 1s"},
		"cap of a list":           {Policy{Delays: []time.Duration{second}, Cap: second}, "cap: expected none without first"},
		"within a class":          {Policy{Classes: map[string]Policy{"a": {Delays: []time.Duration{0}}}}, `classes.a.delays 0s: expected whole milliseconds`},
		"class in a class":        {Policy{Classes: map[string]Policy{"a": {Classes: map[string]Policy{"b": {}}}}}, "classes.a.classes: expected none within a class"},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.policy.Validate()
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestAllDelays(t *testing.T) {
	p := Policy{
		First: time.Second, Cap: 3 * time.Second, Attempts: 1000, Jitter: 0.5,
		Classes: map[string]Policy{"slow": {Delays: []time.Duration{time.Hour, time.Second}}},
	}
	want := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, time.Hour}
	if got := p.AllDelays(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The schedule in the doc comment of Default has the delays of the code.
func TestDocCommentOfDefault(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "policy.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Name.Name != "Default" {
			continue
		}
		var lines []string
		for line := range strings.SplitSeq(f.Doc.Text(), "\n") {
			if text, indented := strings.CutPrefix(line, "\t"); indented {
				lines = append(lines, text+"\n")
			}
		}
		want := "attempt 1   at once\n"
		for i, delay := range Default().Delays {
			want += fmt.Sprintf("attempt %d   %s later\n", i+2, delay)
		}
		if got := strings.Join(lines, ""); got != want {
			t.Errorf("the comment has\n%sand the code\n%s", got, want)
		}
		return
	}
	t.Error("policy.go has no func Default")
}

func TestStandardDelays(t *testing.T) {
	delays := StandardDelays()
	if first, last := delays[0], delays[len(delays)-1]; first != 100*time.Millisecond || last != 24*time.Hour {
		t.Errorf("from %s to %s", first, last)
	}
	for i := 1; i < len(delays); i++ {
		if ratio := float64(delays[i]) / float64(delays[i-1]); ratio <= 1 || ratio > 1.7 {
			t.Errorf("%s after %s", delays[i], delays[i-1])
		}
	}
	if len(delays) > 40 {
		t.Errorf("%d delays, each a queue", len(delays))
	}
}

// A policy with another number of attempts keeps its delays, for every class.
func TestWithAttempts(t *testing.T) {
	listed := Policy{
		Delays:  []time.Duration{time.Second, time.Minute},
		Classes: map[string]Policy{"growing": {First: time.Second, Factor: 3, Attempts: 2}},
	}
	for n, want := range map[int][]time.Duration{
		-1: nil, 0: nil, 1: nil, 2: {time.Second}, 3: {time.Second, time.Minute}, 5: {time.Second, time.Minute, time.Minute, time.Minute},
	} {
		p := listed.WithAttempts(n)
		if !slices.Equal(p.Delays, want) || p.MaxAttempts() != max(n, 1) || p.Classes["growing"].Attempts != max(n, 1) {
			t.Errorf("%d attempts: %+v", n, p)
		}
	}
	if p := (Policy{}).WithAttempts(3); !slices.Equal(p.Delays, []time.Duration{time.Second, time.Second}) {
		t.Errorf("without delays: %+v", p)
	}
	if len(listed.Delays) != 2 || listed.Classes["growing"].Attempts != 2 {
		t.Errorf("the policy itself has changed: %+v", listed)
	}
}
