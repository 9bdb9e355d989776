package topology

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/rabbit"
)

const defaultReconcileEvery = 30 * time.Second

// Reconcile repairs the topology periodically until ctx ends or the connection is closed,
// and at once after a reconnect. Call Declare before it. Deleting an exchange
// deletes its bindings, and RabbitMQ reports that to no client: an exchange that a deploy
// deletes and declares is no longer tapped.
//
// Repairs are logged, and failures once each.
func (r Reconciler) Reconcile(ctx context.Context) {
	log, every := r.logger(), r.Every
	if every <= 0 {
		every = defaultReconcileEvery
	}
	connection, logged := 0, ""
	for ctx.Err() == nil {
		var err error
		if connection, err = r.waitForNextRound(ctx, connection, every); errors.Is(err, rabbit.ErrClosed) {
			return
		}
		err = r.Repair(ctx)
		if err == nil {
			logged = ""
		} else if logged != err.Error() && ctx.Err() == nil && !errors.Is(err, rabbit.ErrClosed) {
			logged = err.Error()
			log.Error("the topology is not as configured; trying again", "error", err)
		}
	}
}

// waitForNextRound waits for the next check, or for a new connection. The time varies, so
// that many processes do not check at the same moment.
func (r Reconciler) waitForNextRound(ctx context.Context, after int, every time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, every*3/4+backoff.Below(every/2+1))
	defer cancel()
	return r.Conn.AwaitConnection(ctx, after)
}

func (r Reconciler) logger() *slog.Logger {
	if r.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return r.Logger
}
