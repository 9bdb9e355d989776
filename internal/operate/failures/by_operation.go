package failures

import (
	"context"
	"strings"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
)

// ByInput names the fields to group by.
type ByInput struct {
	eventfilter.QueryFilter
	Fields []string `query:"fields" required:"true" minItems:"1" maxItems:"5" nullable:"false" doc:"Fields, by their full or short names" example:"headers.tenant"`
}

// ByOutput has the groups.
type ByOutput struct{ Body FailuresBy }

func (o operations) listBy(ctx context.Context, in *ByInput) (*ByOutput, error) {
	fields, err := Fields(o.System, in.Fields)
	if err != nil {
		return nil, err
	}
	for _, field := range fields {
		if strings.HasPrefix(field.Name, "body.") {
			if err := access.ReadBodies(ctx, field.Name); err != nil {
				return nil, err
			}
		}
	}
	sel, err := in.Selection(ctx, o.System)
	if err != nil {
		return nil, err
	}
	by, err := o.ListBy(ctx, sel.Query, fields)
	if err == nil && len(by.Groups) == 0 {
		err = o.System.CheckStore(ctx)
	}
	return &ByOutput{by}, err
}
