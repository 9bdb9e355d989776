package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/client"
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

func (asked) Texts(node kql.Node) (query, dsl string, err error) {
	query, dsl = client.Split(node)
	return query, dsl, nil
}

func (a asked) Do(_ context.Context, _ *operation.Operation, in, out any) error {
	switch in := in.(type) {
	case *waiting.DecideInput:
		*a.requests = append(*a.requests, in.Body)
		out.(*waiting.DecideOutput).Body = waiting.WaitingDecided{Matched: 3, Decided: 3, UpTo: 7}
	case *failures.DiscardInput:
		*a.requests = append(*a.requests, in.Body)
		out.(*failures.DiscardOutput).Body = failures.Discarded{Matched: 3, Discarded: 3, UpTo: 7}
	case *failures.ResolveInput:
		*a.requests = append(*a.requests, in.Body)
		out.(*failures.ResolveOutput).Body = failures.GroupsResolved{Matched: 3, Failures: 3, UpTo: 7}
	}
	return nil
}

// shownIn returns the filter and the limit of the body of a request.
func shownIn(body any) (of eventfilter.Filter, upTo int64) {
	switch body := body.(type) {
	case waiting.WaitingDecision:
		return body.Filter, body.UpTo
	case failures.Resolve:
		return body.Filter, body.UpTo
	}
	return body.(failures.Discard).Filter, 0
}

// What a command does is about what its preview showed: a period that ends or begins relative to
// now stays where it was, and messages that came after the preview are left out.
func TestActionsAreAboutTheirPreview(t *testing.T) {
	t.Parallel()
	fields, err := eventstore.Fields()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := kql.Parse("event.ingested < now-1m")
	if err == nil {
		parsed, err = kql.Resolve(parsed, fields)
	}
	if err != nil {
		t.Fatal(err)
	}
	node, err := system.Period{Since: "1h"}.Limit(parsed)
	if err != nil {
		t.Fatal(err)
	}
	to := terminal.Streams{Out: &strings.Builder{}}
	for name, run := range map[string]func(sys backend) error{
		"waiting": func(sys backend) error {
			d := waitingDecision{Streams: to, yes: true, Decision: waiting.Decision{Action: waiting.Cancel}}
			return d.run(t.Context(), sys, node, nil)
		},
		"discard": func(sys backend) error {
			return discard{Streams: to, yes: true, reason: "x"}.run(t.Context(), sys, node)
		},
		"resolve": func(sys backend) error {
			return resolve{Streams: to, yes: true, reason: "x"}.run(t.Context(), sys, node)
		},
	} {
		var requests []any
		if err := run(asked{requests: &requests}); err != nil || len(requests) != 2 {
			t.Errorf("%s: %d requests, %v", name, len(requests), err)
			continue
		}
		shown, _ := shownIn(requests[0])
		done, upTo := shownIn(requests[1])
		query, limited := strings.CutSuffix(done.Query, ` and event.sequence <= "7"`)
		if query != shown.Query || limited == (upTo == 7) || strings.Contains(shown.Query, "now") {
			t.Errorf("%s: shown was\n%s and done is\n%s up to %d", name, shown.Query, done.Query, upTo)
		}
	}
}
