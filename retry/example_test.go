package retry_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/retry"
)

func ExampleDefault() {
	fmt.Println(retry.Default().Delays, retry.Default().MaxAttempts())
	// Output: [1s 10s 30s] 4
}

// Delays that grow, with jitter so that messages that failed together do not come
// back together, and longer delays for one class of errors.
func ExamplePolicy() {
	policy := retry.Policy{
		First: time.Second, Factor: 10, Cap: time.Minute, Jitter: 0.5, Attempts: 20,
		Classes: map[string]retry.Policy{
			"ordering": {Delays: []time.Duration{time.Minute, time.Hour, 24 * time.Hour}},
		},
	}
	lost, early := errors.New("connection lost"), retry.Class("ordering", errors.New("no such order yet"))
	halfway := func() float64 { return 0.5 }
	for attempt := 1; attempt <= 3; attempt++ {
		after := func(err error) time.Duration {
			return policy.Next(retry.Failure{Err: err, Attempt: attempt}, halfway).Delay
		}
		fmt.Println(after(lost), after(early))
	}
	// Output:
	// 1s 1m0s
	// 10s 1h0m0s
	// 50s 24h0m0s
}

// Two quick attempts, then one each night, but none while the database is maintained, and
// none later than a week after the first failure.
func ExamplePolicy_hours() {
	policy := retry.Policy{
		Delays: []time.Duration{time.Second, time.Minute}, At: []string{"03:00", "03:00", "03:00"}, TimeZone: "Europe/Berlin",
		NoAttempts:  []retry.Window{{Days: []string{"sun"}, From: "02:00", To: "06:00"}},
		GiveUpAfter: 7 * 24 * time.Hour,
	}
	berlin, _ := time.LoadLocation("Europe/Berlin")
	first := time.Date(2026, 5, 8, 22, 15, 0, 0, berlin) // a Friday
	now := first
	for attempt := 1; ; attempt++ {
		d := policy.Next(retry.Failure{Err: errors.New("no stock"), Attempt: attempt, First: first, Now: now}, nil)
		if d.Action == retry.Poison {
			fmt.Println(d.Reason)
			return
		}
		now = now.Add(d.Delay)
		fmt.Println(now.Format("Mon 15:04:05"))
	}
	// Output:
	// Fri 22:15:01
	// Fri 22:16:01
	// Sat 03:00:01
	// Sun 06:00:00
	// Mon 03:00:01
	// failed 6 of 6 attempts
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
	fmt.Printf("%+v\n", policy.Next(retry.Failure{Err: err, Attempt: 1}, nil))
	fmt.Printf("%+v\n", policy.Next(retry.Failure{Err: err, Attempt: 2}, nil))
	// Output:
	// {Action:retry Delay:1s Reason:}
	// {Action:poison Delay:0s Reason:failed 2 of 2 attempts}
}

func ExamplePermanent() {
	err := retry.Permanent(errors.New("an order without lines"))
	fmt.Println(retry.Default().Next(retry.Failure{Err: err, Attempt: 1}, nil).Action, "-", err)
	// Output: poison - an order without lines
}

// A delay that somebody asks for is rounded up to one that has a queue.
func ExampleAfter() {
	err := retry.After(40*time.Second, errors.New("too many requests"))
	fmt.Println(retry.Default().Next(retry.Failure{Err: err, Attempt: 1}, nil).Delay)
	// Output: 50s
}

// A service that has too many requests says how long to wait. It may make a
// message wait longer than its policy says, and not less.
func ExampleAtLeast() {
	busy := errors.New("too many requests")
	fmt.Println(retry.Default().Next(retry.Failure{Err: retry.AtLeast(5*time.Second, busy), Attempt: 1}, nil).Delay)
	fmt.Println(retry.Default().Next(retry.Failure{Err: retry.AtLeast(5*time.Second, busy), Attempt: 2}, nil).Delay)
	// Output:
	// 5s
	// 10s
}

func ExampleClass() {
	policy := retry.Policy{Classes: map[string]retry.Policy{
		"ordering": {Delays: []time.Duration{time.Hour}},
	}}
	err := retry.Class("ordering", errors.New("the order before is missing"))
	fmt.Println(policy.Next(retry.Failure{Err: err, Attempt: 1}, nil).Delay, retry.ClassOf(err))
	// Output: 1h0m0s ordering
}

// The message waits, and no attempt is lost.
func ExampleUnavailable() {
	err := retry.Unavailable(errors.New("the database does not answer"))
	fmt.Println(retry.Default().Next(retry.Failure{Err: err, Attempt: 3}, nil).Action)
	// Output: defer
}

// Whether an attempt counts is known only by what becomes of other messages. If
// it does, the policy decides as of any failure.
func ExamplePolicy_Count() {
	err := retry.Unavailable(errors.New("503 Service Unavailable"))
	fmt.Println(retry.Default().Count(retry.Failure{Err: err, Attempt: 3}, nil).Delay)
	fmt.Println(retry.Default().Count(retry.Failure{Err: err, Attempt: 4}, nil).Reason)
	// Output:
	// 30s
	// failed 4 of 4 attempts
}

// Rules give classes to the errors of services in any language.
func ExampleNewClassifier() {
	classifier, err := retry.NewClassifier(
		retry.Rule{Name: "deadlock", ErrorType: "*Deadlock*", Class: "database"},
		retry.Rule{Name: "no-stock", Queue: "orders", Text: `no stock of item \d+`, Class: "stock"},
	)
	if err != nil {
		panic(err)
	}
	rule, failure := classifier.Classify("orders", nil, errors.New("saving: no stock of item 42"))
	fmt.Println(rule, retry.ClassOf(failure))
	// Output: no-stock stock
}

func ExampleClassifier_Classify() {
	classifier, _ := retry.NewClassifier(retry.Rule{Name: "gold", Headers: map[string]string{"x-tier": "gold*"}, Class: "urgent"})
	refused := errors.New("refused")
	for _, err := range []error{refused, retry.Class("own", refused)} { // an error that names its class keeps it
		rule, failure := classifier.Classify("orders", map[string]any{"x-tier": "golden"}, err)
		fmt.Printf("%q %s\n", rule, retry.ClassOf(failure))
	}
	// Output:
	// "gold" urgent
	// "" own
}

func ExampleDeferral() {
	err := retry.Unavailable(errors.New("503 Service Unavailable"))
	for before := range 9 {
		fmt.Print(retry.Deferral(err, before).Delay, " ")
	}
	// Output: 1s 2s 5s 10s 20s 50s 1m10s 1m40s 1m40s
}

// A route that is rather stopped by three failures than by five, and looks for
// its service at least every ten seconds.
func ExampleBreaker_Pause() {
	breaker := retry.Breaker{Messages: 3, Cap: 10 * time.Second}
	for failed := range 6 {
		fmt.Print(breaker.Pause(failed), " ")
	}
	// Output: 1s 2s 4s 8s 10s 10s
}

// A message waits for an hour at most. What fails after that is an attempt.
func ExampleBreaker_Exhausted() {
	breaker := retry.Breaker{MaxWait: time.Hour}
	now := time.Now()
	fmt.Println(breaker.Exhausted(30, now.Add(-59*time.Minute), now), breaker.Exhausted(30, now.Add(-time.Hour), now))
	// Output: false true
}

// Where the service answers, and refuses every message alike, they wait less often.
func ExampleBreaker_ExhaustedAlike() {
	var breaker retry.Breaker
	now := time.Now()
	fmt.Println(breaker.ExhaustedAlike(20, now, now), breaker.Exhausted(20, now, now))
	// Output: true false
}

func ExampleBreaker_Or() {
	route := retry.Breaker{Messages: 20}
	fmt.Println(route.Or(retry.Breaker{Messages: 5, Cap: time.Hour}).WithDefaults().Cap)
	// Output: 1h0m0s
}

func ExampleBreaker_WithDefaults() {
	fmt.Println(retry.Breaker{}.WithDefaults().Messages)
	// Output: 5
}

func ExampleBreaker_Validate() {
	fmt.Println(retry.Breaker{First: time.Minute, Cap: time.Second}.Validate())
	// Output: cap 1s: expected at least first, 1m0s
}

func ExampleIsPermanent() {
	fmt.Println(retry.IsPermanent(fmt.Errorf("saving: %w", retry.Permanent(errors.New("no such order")))))
	// Output: true
}

func ExampleTypeOf() {
	err := fmt.Errorf("saving: %w", retry.Permanent(&retry.PanicError{Value: "oh"}))
	fmt.Println(retry.TypeOf(err))
	// Output: *retry.PanicError
}

func ExampleStandardDelays() {
	fmt.Println(retry.StandardDelays()[:8])
	// Output: [100ms 150ms 200ms 300ms 500ms 700ms 1s 1.5s]
}

func ExampleClassOf() {
	fmt.Println(retry.ClassOf(errors.New("lost")), retry.ClassOf(retry.Class("ordering", errors.New("too early"))))
	// Output: default ordering
}

// Failures whose texts differ are one group if their handler says so.
func ExampleGroup() {
	err := retry.Permanent(retry.Group("card refused", errors.New("the bank says: call us")))
	fmt.Println(err, "/", retry.GroupOf(err))
	// Output: the bank says: call us / card refused
}

func ExampleGroupOf() {
	fmt.Printf("%q\n", retry.GroupOf(errors.New("lost")))
	// Output: ""
}

// A handler of much work resumes where the attempt before it stopped.
func ExampleProgress() {
	handler := func(msg *message.Message) ([]*message.Message, error) {
		page, _ := strconv.Atoi(retry.AttemptFrom(msg.Context()).Progress)
		for ; page < 10; page++ {
			if page == 7 {
				return nil, retry.Progress(strconv.Itoa(page), errors.New("the service stopped"))
			}
		}
		return nil, nil
	}
	_, err := handler(message.NewMessage("", nil))
	fmt.Println(retry.ProgressOf(err))
	// Output: 7 true
}

func ExampleProgressOf() {
	text, found := retry.ProgressOf(errors.New("no stock"))
	fmt.Printf("%q %v\n", text, found)
	// Output: "" false
}

func ExampleHeaders_Apply() {
	names := retry.Headers{Limit: "x-retry-limit", Delay: "x-delay"}
	headers := map[string]any{"x-retry-limit": 7, "x-delay": "soon"}
	policy, attempts, err := names.Apply(headers, retry.Default(), 1, errors.New("no stock"))
	fmt.Println(policy.MaxAttempts(), attempts, err)
	// Output: 8 1 no stock
}

func ExamplePolicy_WithAttempts() {
	fmt.Println(retry.Default().WithAttempts(3).Delays)
	// Output: [1s 10s]
}

// The test of a handler gives it an attempt.
func ExampleContextWithAttempt() {
	ctx := retry.ContextWithAttempt(context.Background(), retry.Attempt{Number: 4, Queue: "orders"})
	fmt.Println(retry.AttemptFrom(ctx).Number)
	// Output: 4
}

func ExampleAttemptFrom() {
	handler := func(msg *message.Message) ([]*message.Message, error) {
		if retry.AttemptFrom(msg.Context()).Number > 3 {
			return nil, retry.Class("patient", fmt.Errorf("still no answer"))
		}
		return nil, nil
	}
	_, err := handler(message.NewMessage("", nil)) // outside of an attempt
	fmt.Println(err)
	// Output: <nil>
}

// A message that is postponed by five hours waits twice.
func ExampleStep() {
	first := retry.Step(5 * time.Hour)
	fmt.Println(first, retry.Step(5*time.Hour-first))
	// Output: 4h10m0s 50m0s
}
