package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"reflect"
	"strings"

	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operate/subscriptions"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

// upcastTrial tries the program of a subscription on recorded messages.
type upcastTrial struct {
	program  *transform.Program // nil: the program of the subscription
	target   subscription.Target
	changed  int
	examples transform.Examples // the first few messages that the program changes
}

// newUpcastTrial returns a trial of the program in a file; "": of the program of the subscription.
func newUpcastTrial(file string, in io.Reader) (*upcastTrial, error) {
	t := &upcastTrial{}
	if file == "" {
		return t, nil
	}
	text, err := readProgram("--upcast", file, in)
	if err == nil {
		t.program, err = transform.Parse(text)
	}
	return t, err
}

// prepare takes a missing program or query from the subscription, if one is named, and returns the query.
func (t *upcastTrial) prepare(ctx context.Context, sys backend, name, query string) (string, error) {
	if name == "" {
		return query, nil
	}
	found, err := subscriptions.GetSubscription.Call(ctx, sys, subscriptions.NameInput{Name: name})
	if err != nil {
		return "", err
	}
	if t.program == nil && found.Body.Upcast == "" {
		return "", usagef("subscription %s has no program: give one by --upcast", name)
	}
	if t.program == nil {
		t.program, err = transform.Parse(found.Body.Upcast)
	}
	t.target.Kind = subscription.Kind(found.Body.Target.Kind)
	return cmp.Or(strings.TrimSpace(query), found.Body.Query), err
}

// try returns why the program fails for a message, as a subscription would park it; "": it does not.
func (t *upcastTrial) try(ctx context.Context, e schemas.Event) (problem string, err error) {
	upcast, err := t.target.Upcast(e.Envelope, programsOf(ctx).Apply(ctx, t.program, e.Envelope)[0])
	var failed *transform.Error
	switch {
	case errors.As(err, &failed):
		return failed.Problem, nil
	case err != nil || reflect.DeepEqual(e.Envelope, upcast):
		return "", err
	}
	t.changed++
	return "", t.examples.Add(e.EventID, e.Envelope, upcast, nil)
}

// trialResult is the JSON of a trial.
type trialResult struct {
	Changed  int                   `json:"changed"`
	Examples []replays.PlanExample `json:"examples"`
}

func (t *upcastTrial) result() *trialResult {
	if t == nil {
		return nil
	}
	r := &trialResult{t.changed, []replays.PlanExample{}}
	for _, example := range t.examples {
		r.Examples = append(r.Examples, replays.PlanExample(example))
	}
	return r
}

// print prints the examples.
func (t *upcastTrial) print(to printer) error {
	var page bytes.Buffer
	for _, example := range t.examples {
		if err := writeExample(&page, example, "becomes"); err != nil {
			return err
		}
	}
	_, err := to.Out.Write(page.Bytes())
	return err
}
