package transport

import (
	"context"

	"github.com/watershipmq/watership/pipeline/internal/delivery"
)

// Redelivered reports whether the broker marked the message being handled as delivered
// before: to a handler that failed, or to a process that died.
func Redelivered(ctx context.Context) bool { return delivery.Redelivered(ctx) }
