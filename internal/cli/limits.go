package cli

import (
	"context"
	"errors"

	"github.com/watershipmq/watership/internal/doctor"
)

// refuseLimits fails with every limit and the command that lifts it.
func (s system) refuseLimits(ctx context.Context) error {
	var limits []error
	for _, f := range doctor.Limits(ctx, s.examination()) {
		limits = append(limits, errors.New(f.Detail+"\n  → "+f.Remedy))
	}
	return errors.Join(limits...)
}

// reportLimits logs every limit once the queues are declared. serve goes on: to record
// and retry nothing would lose more.
func (v *vitals) reportLimits(ctx context.Context) error {
	select {
	case <-v.handlers.Running():
	case <-ctx.Done():
		return nil
	}
	for _, f := range doctor.Limits(ctx, v.examination()) {
		v.logger.Error("the broker may drop messages: "+f.Detail, "remedy", f.Remedy)
	}
	return nil
}
