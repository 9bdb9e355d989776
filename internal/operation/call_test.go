package operation_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
)

type paging struct {
	Limit int    `query:"limit" default:"20"`
	Sort  string `query:"sort" default:"count"`
}

type listInput struct {
	paging
	Query string `query:"query"`
}

type listOutput struct{ Body []any }

var list = operation.Declare[listInput, listOutput](operation.Operation{Method: http.MethodGet, Path: "/list", ID: "list", Role: access.Operator})

// A call in this process has the defaults of the request that it replaces, and what is done
// although there is an error.
func TestLocalCall(t *testing.T) {
	t.Parallel()
	set, failed := operation.NewLocal(), errors.New("failed")
	operation.Implement(set, list, func(_ context.Context, in *listInput) (*listOutput, error) {
		return &listOutput{[]any{in.Query, in.Limit, in.Sort}}, failed
	})
	ctx := access.NewContext(t.Context(), access.AsOperator("ann"))
	for _, test := range []struct {
		in    listInput
		limit int
		sort  string
	}{
		{listInput{Query: "a"}, 20, "count"},
		{listInput{Query: "a", paging: paging{Limit: 3, Sort: "last"}}, 3, "last"},
	} {
		out, err := list.Call(ctx, set, test.in)
		if got := out.Body; !errors.Is(err, failed) || len(got) != 3 || got[0] != "a" || got[1] != test.limit || got[2] != test.sort {
			t.Errorf("%+v: %v, %v", test.in, got, err)
		}
	}
}

// A call needs the role of the operation, as a request does.
func TestLocalCallNeedsRole(t *testing.T) {
	t.Parallel()
	set := operation.NewLocal()
	operation.Implement(set, list, func(context.Context, *listInput) (*listOutput, error) { return &listOutput{}, nil })
	for _, caller := range []access.Identity{{}, {Name: "eve", Role: access.Viewer}} {
		_, err := list.Call(access.NewContext(t.Context(), caller), set, listInput{})
		if refused := (*access.Error)(nil); !errors.As(err, &refused) || refused.Code != code.Forbidden {
			t.Errorf("%+v: %v", caller, err)
		}
	}
	if _, err := list.Call(access.NewContext(t.Context(), access.AsOperator("ann")), operation.NewLocal(), listInput{}); err == nil {
		t.Error("an operation that nothing implements was called")
	}
}
