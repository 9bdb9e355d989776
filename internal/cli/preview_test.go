package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/waiting"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/system"
)

// asked is a system whose operations find three messages, up to the sequence 7.
type asked struct {
	backend
	requests *[]any // bodies of requests
}

func (a asked) Do(_ context.Context, _ *operation.Operation, in, out any) error {
	done := operation.Outcome{Found: operation.Found{Matched: 3, UpTo: 7}, Done: 3}
	switch in := in.(type) {
	case *waiting.DecideInput:
		*a.requests = append(*a.requests, in.Body)
		out.(*waiting.DecideOutput).Body = waiting.WaitingDecided{Outcome: done}
	case *failures.DiscardInput:
		*a.requests = append(*a.requests, in.Body)
		out.(*failures.DiscardOutput).Body = failures.Discarded{Outcome: done}
	case *failures.ResolveInput:
		*a.requests = append(*a.requests, in.Body)
		out.(*failures.ResolveOutput).Body = failures.GroupsResolved{Outcome: done}
	}
	return nil
}

// ParseQuery implements language.
func (asked) ParseQuery(text string) (kql.Node, error) {
	fields, err := eventstore.Fields()
	if err != nil {
		return nil, err
	}
	parsed, err := kql.Parse(text)
	if err != nil {
		return nil, err
	}
	return kql.Resolve(parsed, fields)
}

// shownIn returns the choice and the bounds of the body of a request.
func shownIn(body any) (of eventfilter.Choice, bounds operation.Bounds) {
	switch body := body.(type) {
	case waiting.WaitingDecision:
		return body.Choice, body.Bounds
	case failures.Resolve:
		return body.Choice, body.Bounds
	}
	discard := body.(failures.Discard)
	return discard.Choice, discard.Bounds
}

// What a command does is about what its preview showed: a period that ends or begins relative to
// now stays where it was, and messages that came after the preview are left out.
func TestActionsAreAboutTheirPreview(t *testing.T) {
	t.Parallel()
	const query = "event.ingested < now-1m"
	for name, run := range map[string]func(a action, sys backend) error{
		"waiting": func(a action, sys backend) error {
			d := waitingDecision{action: a, Decision: waiting.Decision{Action: waiting.Cancel}}
			return d.run(t.Context(), sys, query)
		},
		"discard": func(a action, sys backend) error { return a.discard(t.Context(), sys, query) },
		"resolve": func(a action, sys backend) error {
			r := resolve{action: a, query: query}
			return r.run(t.Context(), sys)
		},
	} {
		var requests []any
		a := action{Streams: terminal.Streams{Out: &strings.Builder{}}, yes: true, reason: "x"}
		a.filter.period = system.Period{Since: "1h"}
		if err := run(a, asked{requests: &requests}); err != nil || len(requests) != 2 {
			t.Errorf("%s: %d requests, %v", name, len(requests), err)
			continue
		}
		shown, dry := shownIn(requests[0])
		done, bounds := shownIn(requests[1])
		if done.Filter != shown.Filter || strings.Contains(shown.Query, "now") || !dry.DryRun || bounds.DryRun || done.UpTo != 7 || bounds.Expect == nil || *bounds.Expect != 3 {
			t.Errorf("%s: shown was\n%s and done is\n%s with %+v", name, shown.Query, done.Query, bounds)
		}
	}
}
