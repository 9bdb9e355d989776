// Package messages explains what becomes of a failed message, and checks the bodies of stored
// messages with a schema.
package messages

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Policies are the policies and rules of a process.
type Policies struct {
	Routes  []pipeline.Route
	Default *retry.Policy
	Rules   []retry.Rule
}

// Of returns the policies and rules of handlers.
func Of(handlers pipeline.Config) Policies {
	return Policies{Routes: handlers.Routes, Default: handlers.Default, Rules: handlers.Rules}
}

// FailedAttempt is the failure of an attempt.
type FailedAttempt struct {
	Queue   string
	Error   Error
	Class   string // that the error names; "": rules choose it
	Attempt int
	Headers amqp.Table
	First   time.Time // of the first failure
	Time    time.Time
}

// Error is an error with the type that events have.
type Error struct {
	Type string `json:"type,omitempty"`
	Text string `json:"text"`
}

// Error implements error.
func (e Error) Error() string { return e.Text }

// ErrorType returns the type for retry.TypeOf.
func (e Error) ErrorType() string { return e.Type }

// Explanation says what becomes of a failed message.
type Explanation struct {
	Message  string    `json:"message,omitempty" doc:"Fingerprint of the message; none: the error was given"`
	Queue    string    `json:"queue"`
	Route    bool      `json:"route" doc:"Whether a route has the queue; false: the default policy counts"`
	Process  string    `json:"process,omitempty" doc:"Process that handles the queue, as HOST:PID, if a route of another configuration has it: its policy is not known here"`
	Error    Error     `json:"error"`
	Class    string    `json:"class" doc:"By the rules of now"`
	Rule     string    `json:"rule,omitempty" doc:"Rule that chooses the class; none: the error names it, or no rule matches"`
	Attempt  int       `json:"attempt" doc:"Attempt that failed"`
	Attempts int       `json:"attempts" doc:"Attempts that the policy allows"`
	Failed   time.Time `json:"failed" doc:"When the attempt failed"`
	Action   string    `json:"action" doc:"retry, defer (no attempt is lost), poison, or handled or discarded if the message was since"`
	Reason   string    `json:"reason,omitempty" doc:"Why it is poison"`
	Delay    float64   `json:"delay_seconds,omitempty" doc:"Until the next attempt, without jitter and spread if the error was given"`
	Schedule []Attempt `json:"schedule" nullable:"false" doc:"Attempts that would follow, if each fails at once with this error; at most 100"`
	GivenUp  time.Time `json:"given_up,omitzero" doc:"When the message would be given up; none: the schedule goes on"`
	Recorded *Recorded `json:"recorded,omitempty" doc:"How the failure was recorded; none: the error was given"`
}

// Attempt is an attempt of a schedule.
type Attempt struct {
	Number int       `json:"attempt"`
	Delay  float64   `json:"delay_seconds" doc:"After the failure before"`
	Time   time.Time `json:"time"`
}

// Recorded is a failure as its event has it.
type Recorded struct {
	Action string `json:"action" doc:"retry_scheduled or poisoned, or handled or discarded"`
	Class  string `json:"class,omitempty"`
	Rule   string `json:"rule,omitempty"`
}

const mostAttempts = 100 // of a schedule

// Failure explains a failure that was given.
func (cfg Policies) Failure(f FailedAttempt) Explanation {
	ex, policy, err := cfg.classify(f)
	next := policy.Count(retry.Failure{Err: err, Attempt: ex.Attempt, First: f.First, Now: f.Time}, nil)
	ex.decide(policy, next, err, f.First)
	return ex
}

// classify returns the policy and the error of a failure, as the headers of its message change
// them, and the facts known before a decision.
func (cfg Policies) classify(f FailedAttempt) (ex Explanation, policy retry.Policy, err error) {
	route, policy, found := cfg.route(f.Queue)
	classifier, _ := retry.NewClassifier(slices.Concat(route.Rules, cfg.Rules)...) // the configuration has checked them
	err = f.Error
	if f.Class != "" {
		err = retry.Class(f.Class, err)
	}
	rule, err := classifier.Classify(f.Queue, f.Headers, err)
	policy, before, err := route.Headers.Apply(f.Headers, policy, max(f.Attempt, 1)-1, err)
	return Explanation{
		Queue: f.Queue, Route: found, Error: f.Error, Class: retry.ClassOf(err), Rule: rule, Attempt: before + 1, Failed: f.Time.UTC(),
		Attempts: policy.ForClass(retry.ClassOf(err)).MaxAttempts(), Schedule: []Attempt{},
	}, policy, err
}

// decide adds a decision, and the attempts that follow.
func (ex *Explanation) decide(policy retry.Policy, next retry.Decision, err error, first time.Time) {
	ex.Action, ex.Reason, ex.Delay = next.Action.String(), next.Reason, next.Delay.Seconds()
	ex.follow(policy, next, err, first)
}

// follow adds the attempts that follow a decision.
func (ex *Explanation) follow(policy retry.Policy, next retry.Decision, err error, first time.Time) {
	if first.IsZero() {
		first = ex.Failed
	}
	failed, attempt := ex.Failed, ex.Attempt
	for next.Action != retry.Poison {
		if len(ex.Schedule) == mostAttempts {
			return
		}
		if next.Action == retry.Retry {
			attempt++
		}
		failed = failed.Add(next.Delay)
		ex.Schedule = append(ex.Schedule, Attempt{attempt, next.Delay.Seconds(), failed})
		next = policy.Count(retry.Failure{Err: err, Attempt: attempt, First: first, Now: failed}, nil)
	}
	ex.GivenUp = failed
}

// route returns the route of a queue and its policy, and whether there is a route.
func (cfg Policies) route(queue string) (pipeline.Route, retry.Policy, bool) {
	i := slices.IndexFunc(cfg.Routes, func(r pipeline.Route) bool { return r.Queue == queue })
	route := pipeline.Route{Queue: queue}
	if i >= 0 {
		route = cfg.Routes[i]
	}
	if policy := cmp.Or(route.Policy, cfg.Default); policy != nil {
		return route, *policy, i >= 0
	}
	return route, retry.Default(), i >= 0
}

// Message explains the latest failure of a message at a queue ("": the queue that failed
// last). events are the events of the message, in order; e has its headers.
func (cfg Policies) Message(e schemas.Event, events []schemas.Event, queue string) (Explanation, error) {
	at := -1
	since := map[string]schemas.Event{} // what happened to the message at each queue, after its failure
	for i, event := range events {
		switch event.Action {
		case schemas.RetryScheduled, schemas.Poisoned:
			delete(since, event.Queue)
			if queue == "" || event.Queue == queue {
				at = i
			}
		case schemas.Handled, schemas.Discarded, schemas.Rescheduled:
			since[event.Queue] = event
		}
	}
	if at < 0 {
		return Explanation{}, &NoFailureError{Message: e.Fingerprint, Queue: queue}
	}
	failure := events[at]
	return cfg.recorded(e, failure, since[failure.Queue]), nil
}

// NoFailureError reports that a message did not fail.
type NoFailureError struct{ Message, Queue string }

func (e *NoFailureError) Error() string {
	if e.Queue != "" {
		return fmt.Sprintf("message %q has no failure at queue %s", e.Message, e.Queue)
	}
	return fmt.Sprintf("message %q has no failure", e.Message)
}

// recorded explains a failure by its event. The decision of the event counts, or of an operator
// since, and the policy for the attempts after the next. The action of since is empty if nothing
// has happened since.
func (cfg Policies) recorded(e, failure, since schemas.Event) Explanation {
	f := FailedAttempt{
		Queue: failure.Queue, Error: Error{failure.Failure.Type, failure.Failure.Message}, Attempt: failure.Attempt,
		Headers: e.Envelope.Headers, First: failure.FirstFailed, Time: failure.Time,
	}
	if why := failure.Failure; why.Rule == "" && why.Class != retry.DefaultClass {
		f.Class = why.Class
	}
	next := retry.Decision{Action: retry.Poison}
	if failure.Action == schemas.RetryScheduled {
		next = retry.Decision{Action: retry.Retry, Delay: failure.Delay}
		if since.Action == schemas.Rescheduled {
			next.Delay = since.Time.Add(since.Delay).Sub(failure.Time)
		}
		if !counts(failure) {
			next.Action = retry.Defer
			f.Attempt++
		}
	}
	ex, policy, err := cfg.classify(f)
	ex.Message = e.Fingerprint
	ex.Recorded = &Recorded{string(failure.Action), failure.Failure.Class, failure.Failure.Rule}
	if since.Action == schemas.Handled || since.Action == schemas.Discarded {
		ex.Recorded.Action, ex.Action = string(since.Action), string(since.Action)
		return ex
	}
	if next.Action == retry.Poison {
		next.Reason = whyPoison(failure, policy.Count(retry.Failure{Err: err, Attempt: ex.Attempt, First: failure.FirstFailed, Now: failure.Time}, nil))
	}
	ex.decide(policy, next, err, failure.FirstFailed)
	return ex
}

// whyPoison returns the reason of a `poisoned` event. If the policy, which does not know whether
// the error was permanent, would go on, it was.
func whyPoison(failure schemas.Event, byPolicy retry.Decision) string {
	if byPolicy.Action == retry.Poison {
		return byPolicy.Reason
	}
	// As webhook.StatusError writes it.
	if answered := regexp.MustCompile(`^https?://\S+ answered (\d{3}[^:]*)`).FindStringSubmatch(failure.Failure.Message); answered != nil {
		return "permanent, by the answer " + strings.TrimSpace(answered[1])
	}
	return "permanent, by its error"
}

// counts reports whether the failure of a `retry_scheduled` event used an attempt.
func counts(failure schemas.Event) bool {
	n := len(failure.Attempts)
	return n > 0 && failure.Attempts[n-1].Time.Equal(failure.Time)
}
