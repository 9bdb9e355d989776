package retry_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/watershipmq/watership/retry"
)

func ExampleDefault() {
	fmt.Print(retry.Default().Timetable())
	// Output:
	// attempt 1   at once
	// attempt 2   1s later
	// attempt 3   10s later
	// attempt 4   30s later
}

// Delays that grow, spread so that what failed together does not come back
// together, and a class of errors that is tried more patiently.
func ExamplePolicy_Timetable() {
	policy := retry.Policy{
		First: time.Second, Factor: 10, Cap: time.Minute, Jitter: 0.5, Attempts: 20,
		Classes: map[string]retry.Policy{
			"ordering": {Delays: []time.Duration{time.Minute, time.Hour, 24 * time.Hour}},
		},
	}
	fmt.Print(policy.Timetable())
	// Output:
	// attempt 1   at once
	// attempt 2   500ms to 1s later
	// attempt 3   5s to 10s later
	// attempts 4 to 20   30s to 1m later each
	// class ordering
	// attempt 1   at once
	// attempt 2   1m later
	// attempt 3   1h later
	// attempt 4   24h later
}

func ExamplePolicy_AllDelays() {
	policy := retry.Policy{First: time.Second, Cap: 5 * time.Second, Attempts: 10}
	fmt.Println(policy.AllDelays())
	// Output: [1s 2s 4s 5s]
}

func ExamplePolicy_Validate() {
	fmt.Println(retry.Policy{First: time.Second, Jitter: 2}.Validate())
	// Output:
	// attempts 0: expected 1 to 10000
	// jitter 2: expected 0 to 1
}

func ExamplePolicy_Next() {
	policy := retry.Policy{Delays: []time.Duration{time.Second}}
	err := errors.New("no such customer")
	fmt.Printf("%+v\n", policy.Next(err, 1, nil))
	fmt.Printf("%+v\n", policy.Next(err, 2, nil))
	// Output:
	// {Verb:again Delay:1s Reason:}
	// {Verb:poison Delay:0s Reason:failed 2 of 2 attempts}
}

func ExamplePermanent() {
	err := retry.Permanent(errors.New("an order without lines"))
	fmt.Println(retry.Default().Next(err, 1, nil).Verb, "-", err)
	// Output: poison - an order without lines
}

// A delay that somebody asks for is rounded up to one that has a queue.
func ExampleAfter() {
	err := retry.After(40*time.Second, errors.New("too many requests"))
	fmt.Println(retry.Default().Next(err, 1, nil).Delay)
	// Output: 50s
}

func ExampleClass() {
	policy := retry.Policy{Classes: map[string]retry.Policy{
		"ordering": {Delays: []time.Duration{time.Hour}},
	}}
	err := retry.Class("ordering", errors.New("the order before is missing"))
	fmt.Println(policy.Next(err, 1, nil).Delay, retry.ClassOf(err))
	// Output: 1h0m0s ordering
}

// The message waits, its route pauses, and no attempt is lost.
func ExampleUnavailable() {
	err := retry.Unavailable(errors.New("the database is away"))
	fmt.Println(retry.Default().Next(err, 3, nil).Verb)
	// Output: wait
}

func ExampleTypeOf() {
	err := fmt.Errorf("saving: %w", retry.Permanent(&retry.PanicError{Value: "oh"}))
	fmt.Println(retry.TypeOf(err))
	// Output: *retry.PanicError
}

func ExampleLadder() {
	fmt.Println(retry.Ladder()[:8])
	// Output: [100ms 150ms 200ms 300ms 500ms 700ms 1s 1.5s]
}

func ExampleClassOf() {
	fmt.Println(retry.ClassOf(errors.New("lost")), retry.ClassOf(retry.Class("ordering", errors.New("too early"))))
	// Output: default ordering
}
