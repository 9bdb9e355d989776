package httpapi

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/watershipmq/watership/internal/operation/problem"
)

// problemOfHuma replaces the errors of huma, which are about a request that does not fit
// its schema.
func problemOfHuma(_ huma.Context, _ string, v any) (any, error) {
	model, is := v.(*huma.ErrorModel)
	if !is {
		return v, nil
	}
	p := problem.Problem{Status: model.Status, Detail: model.Detail}
	for _, e := range model.Errors {
		p.Errors = append(p.Errors, problem.Mistake{Location: e.Location, Message: e.Message})
	}
	return p.Complete(), nil
}
