package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/schemas"
)

// errRunning is the error of an attempt at a message that a handler is still working on.
var errRunning = errors.New("its handler has not returned since an earlier delivery, which has ended")

// stillRunning fails an attempt at a message that a handler of this process has since an
// earlier delivery. It is a failure if the time-out of the route has passed; otherwise
// the message waits for the handler.
func (h *routeHandler) stillRunning(ctx context.Context, verified *schemas.VerifiedState) error {
	since, found := h.runningCalls.Find(&verified.State, transport.Redelivered(ctx), h.newID)
	switch {
	case !found:
		return nil
	case h.route.Timeout > 0 && h.now().Sub(since) > h.route.Timeout:
		return fmt.Errorf("%w: %w", errRunning, context.DeadlineExceeded)
	}
	return errRunning
}
