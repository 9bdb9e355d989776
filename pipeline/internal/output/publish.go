package output

import (
	"context"
	"errors"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/retry"
)

// ConfirmTimeout returns the time limit for the confirms of messages, with room for a
// slow broker: a second for each thousand messages, and for each MB, in addition to a timeout.
func ConfirmTimeout(timeout time.Duration, messages []rabbit.Message) time.Duration {
	timeout += time.Duration(len(messages)) * time.Millisecond
	for _, m := range messages {
		timeout += time.Duration(len(m.Publishing.Body)) * time.Microsecond
	}
	return timeout
}

// ClassifyPublishError separates an outgoing message that the broker refuses from a
// broker that did not answer. A full queue refuses other messages as well.
func ClassifyPublishError(ctx context.Context, err error) (why, unknown error) {
	var full *rabbit.NackedError
	var gone *rabbit.UnroutableError
	var refused *rabbit.RefusedError
	switch {
	case errors.As(err, &full):
		return retry.Unavailable(err), nil
	case errors.As(err, &gone), errors.As(err, &refused):
		return err, nil
	case !CannotRetry(ctx, err):
		return retry.Unavailable(err), nil
	}
	return nil, err
}
