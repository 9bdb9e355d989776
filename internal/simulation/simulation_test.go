package simulation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// failed returns seeds that have failed, each with another cause.
func failed() []uint64 {
	return []uint64{
		14,   // places of ordered messages stayed whose publishing was refused
		250,  // due messages waited for a decision that one of them read
		229,  // of two equal messages in order, one took the place of the other, whose own stayed
		280,  // a reload waited under a lock
		165,  // a resumed job forgot that a claim was proven
		5047, // one failed request made a process unready for minutes, whose queue another one had taken over
	}
}

// seeds yields SEEDS seeds from SEED on; or those that have failed, and then others for a DURATION; or
// the first that has failed. The others are those of the day, so that a run can be repeated.
func seeds(t *testing.T) iter.Seq[uint64] {
	t.Helper()
	duration, err := time.ParseDuration(cmp.Or(os.Getenv("DURATION"), "0s"))
	if err != nil {
		t.Fatalf("DURATION: %v", err)
	}
	first, n := number(t, "SEED", 0), number(t, "SEEDS", 1)
	return func(yield func(uint64) bool) {
		switch {
		case first > 0:
			for i := range n {
				if !yield(first + i) {
					return
				}
			}
			return
		case os.Getenv("DURATION") == "":
			yield(failed()[0])
			return
		}
		for _, seed := range failed() {
			if !yield(seed) {
				return
			}
		}
		end, ofDay := time.Now().Add(duration), firstOf(time.Now())
		for i := uint64(0); time.Now().Before(end) && yield(ofDay+i); i++ {
		}
	}
}

// firstOf returns the first seed of a day.
func firstOf(day time.Time) uint64 {
	year, month, number := day.UTC().Date()
	return uint64(year)*1e10 + uint64(month)*1e8 + uint64(number)*1e6
}

// A process of runProcess runs this test, and no other one.
func TestPlanOfTheEnvironment(t *testing.T) {
	text := os.Getenv(planVariable)
	if text == "" {
		t.Skip("the environment has no plan")
	}
	var plan Plan
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		t.Fatal(err)
	}
	result, err := json.Marshal(Run(t, plan))
	if err == nil {
		err = os.WriteFile(os.Getenv(resultVariable), result, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func runSeed(t *testing.T, plan Plan) Result {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		return Result{Violations: []string{err.Error()}}
	}
	return runProcess(t.Context(), program, plan, t.TempDir())
}

// Nothing is lost, and everything comes to rest.
func TestSeeds(t *testing.T) {
	began := time.Now()
	next, results := make(chan uint64), make(chan Result)
	all, latest, runs := seeds(t), uint64(0), 0
	var running sync.WaitGroup
	for range runtime.NumCPU() {
		running.Go(func() {
			for seed := range next {
				results <- check(t, seed)
			}
		})
	}
	go func() {
		defer close(results)
		for latest = range all {
			next <- latest
			runs++
		}
		close(next)
		running.Wait()
	}()
	messages := 0
	for result := range results {
		messages += result.Messages
	}
	t.Logf("%d seeds, the last one %d, %d messages, %s", runs, latest, messages, time.Since(began))
}

// check runs a seed, and reports its violations with the fewest faults that still violate
// something. TIMELINE is a file for the timeline of the last seed that does.
func check(t *testing.T, seed uint64) Result {
	plan := NewPlan(seed)
	result := runSeed(t, plan)
	if len(result.Violations) == 0 {
		return result
	}
	shown := result
	least := shrink(plan, func(fewer Plan) bool {
		r := runSeed(t, fewer)
		if len(r.Violations) > 0 {
			shown = r
		}
		return len(r.Violations) > 0
	})
	var text strings.Builder
	fmt.Fprintf(&text, "seed %d: %d violations with %d faults, %d with these:", seed, len(result.Violations), len(plan.Faults), len(shown.Violations))
	fmt.Fprintf(&text, "\n  %s, clocks: %s", least.Profile, least.Clocks)
	for _, a := range least.Actions {
		fmt.Fprintf(&text, "\n  %s", a)
	}
	for _, x := range least.Outages {
		fmt.Fprintf(&text, "\n  %s", x)
	}
	for _, f := range least.Faults {
		fmt.Fprintf(&text, "\n  %s", f)
	}
	for _, v := range shown.Violations[:min(len(shown.Violations), 10)] {
		fmt.Fprintf(&text, "\n  %s", v)
	}
	t.Error(text.String())
	if path := os.Getenv("TIMELINE"); path != "" {
		if err := os.WriteFile(path, []byte(strings.Join(shown.Timeline, "\n")), 0o600); err != nil {
			t.Error(err)
		}
	}
	return result
}

// The shortest schedule of faults is found, whichever of them are needed.
func TestShrink(t *testing.T) {
	plan := NewPlan(1)
	for len(plan.Faults) < 7 {
		plan.Faults = append(plan.Faults, plan.Faults...)
	}
	for i := range plan.Faults {
		plan.Faults[i].Choice = i
	}
	has := func(p Plan, choice int) bool {
		return slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Choice == choice })
	}
	least := shrink(plan, func(p Plan) bool { return has(p, 1) && (has(p, 3) || has(p, 5)) })
	if len(least.Faults) != 2 || !has(least, 1) || !has(least, 5) {
		t.Errorf("what is left: %v", least.Faults)
	}
}
