package cli

import (
	"context"
	"errors"
	"slices"
)

// limits finds the policies and delivery limits by which the broker drops messages of
// our queues and of queues of routes. Without the management API it finds none.
func (s system) limits(ctx context.Context) []finding {
	ctx, cancel := bounded(ctx)
	defer cancel()
	d := &doctor{system: s}
	management, err := d.managementAPI()
	if err != nil || d.inspect(ctx, management) != nil {
		return nil
	}
	d.checkOurQueues()
	d.checkRouteQueues()
	return slices.DeleteFunc(d.findings, func(f finding) bool { return f.Verdict != wrong })
}

// refuseLimits fails with every limit and the command that lifts it.
func (s system) refuseLimits(ctx context.Context) error {
	var limits []error
	for _, f := range s.limits(ctx) {
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
	for _, f := range v.limits(ctx) {
		v.logger.Error("the broker may drop messages: "+f.Detail, "remedy", f.Remedy)
	}
	return nil
}
