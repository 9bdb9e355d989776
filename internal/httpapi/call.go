package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/idempotency"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// Do implements operation.Via: it does an operation for the caller in the context as a request
// of that caller does it, with the same limits, and one with a key once. An error is a
// *problem.Problem. A stream counts as a request until its caller has had it written.
func (a *API) Do(ctx context.Context, op *operation.Operation, in, out any) error {
	caller := access.FromContext(ctx)
	if refused := a.slots.take(caller, op.Stream); refused != nil {
		return refused.Complete()
	}
	written := false // by its caller, later
	defer func() {
		if !written {
			a.slots.give(caller, op.Stream)
		}
	}()
	if err := a.do(ctx, op, in, out); err != nil {
		return problem.New(ctx, err)
	}
	if stream, is := out.(*huma.StreamResponse); is {
		write := stream.Body
		stream.Body = func(to huma.Context) {
			defer a.slots.give(caller, op.Stream)
			write(to)
		}
		written = true
	}
	return nil
}

func (a *API) do(ctx context.Context, op *operation.Operation, in, out any) error {
	if repeatable, is := in.(operation.Repeatable); is && op.Method == http.MethodPost && repeatable.RepeatKey() != "" {
		return a.doOnce(ctx, op, repeatable, out)
	}
	return a.operations.Do(ctx, op, in, out)
}

// doOnce is serveOnce for calls.
func (a *API) doOnce(ctx context.Context, op *operation.Operation, in operation.Repeatable, out any) error {
	input, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("writing the input of %s: %w", op.ID, err)
	}
	caller := access.FromContext(ctx)
	content := idempotency.Digest(op.ID, string(input), caller.Permissions())
	done, err := a.responses.Do(ctx, keyOf(caller, in.RepeatKey()), content, func() (any, bool) {
		err := a.operations.Do(ctx, op, in, out)
		return called{out, err}, err == nil
	})
	if err != nil {
		if errors.Is(err, idempotency.ErrOther) {
			return replays.ErrOtherRequest()
		}
		return err
	}
	first := done.(called)
	if first.out != out { // it is the output of a repeated request
		reflect.ValueOf(out).Elem().Set(reflect.ValueOf(first.out).Elem())
	}
	return first.err
}

// called is the result of a call.
type called struct {
	out any // points to it
	err error
}

// keyOf returns a key of a caller, which is another one for other callers.
func keyOf(caller access.Identity, key string) string {
	return idempotency.Digest(string(caller.Method), caller.Name, key)
}
