package actionpage

import (
	"context"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
)

// paint is an operation on many lamps.
var paint = operation.Declare[paintInput, paintOutput](operation.Operation{Path: "/lamps/paint"})

type paintInput struct {
	operation.IdempotencyKey
	Body painting
}

type painting struct {
	eventfilter.Choice
	Groups []string `json:"groups,omitempty"`
	Colour colour   `json:"colour,omitempty"`
	Coats  int      `json:"coats"`
	operation.Bounds
}

type colour string

type paintOutput struct {
	Body struct {
		operation.Outcome
		Dry bool
	}
}

// painter paints what it is asked to.
type painter struct{ asked *paintInput }

func (p painter) Do(_ context.Context, _ *operation.Operation, in, out any) error {
	*p.asked = *in.(*paintInput)
	done := out.(*paintOutput)
	done.Body.Done, done.Body.Dry = 3, true
	return nil
}

// An action is called with what its input has a place for, and its page is named after its path.
func TestActionOfAnOperation(t *testing.T) {
	var asked paintInput
	a := With(painter{&asked}, paint, func(_ Selection, in *paintInput) error {
		in.Body.Coats = 2
		return nil
	})
	if a.Path != "/lamps/paint" || a.Section != "/lamps" || a.Template != "lamps_paint.html" || !a.ByGroup {
		t.Errorf("%+v", a)
	}
	s := Selection{
		Choice: eventfilter.Choice{IDs: []string{"x"}, UpTo: 7}, Bounds: operation.Bounds{Reason: "dull", DryRun: true},
		Groups: []string{"hall"}, Form: url.Values{"colour": {" red "}, "coats": {"9"}, "groups": {"y"}},
	}
	done, err := a.Call(t.Context(), operation.IdempotencyKey{Key: "k"}, s)
	if err != nil || done.Done != 3 || !done.Body.(struct {
		operation.Outcome
		Dry bool
	}).Dry {
		t.Errorf("%+v, %v", done, err)
	}
	want := paintInput{operation.IdempotencyKey{Key: "k"}, painting{s.Choice, s.Groups, "red", 2, s.Bounds}}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Error(diff)
	}
}
