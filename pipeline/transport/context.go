package transport

import "context"

type redeliveredKey struct{}

// Redelivered reports whether the broker marked the message being handled as delivered
// before: to a handler that failed, or to a process that died.
func Redelivered(ctx context.Context) bool {
	redelivered, _ := ctx.Value(redeliveredKey{}).(bool)
	return redelivered
}

func withRedelivered(ctx context.Context, redelivered bool) context.Context {
	if !redelivered {
		return ctx
	}
	return context.WithValue(ctx, redeliveredKey{}, true)
}
