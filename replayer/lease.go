package replayer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/exclusive"
	"github.com/watershipmq/watership/replayer/internal/lease"
	"github.com/watershipmq/watership/replayer/internal/planbroker"
	"github.com/watershipmq/watership/schemas"
)

// BusyError reports that another process runs the job.
type BusyError struct{ ID string }

func (e *BusyError) Error() string {
	return fmt.Sprintf("job %s is run by another process, which holds its queue at the broker", e.ID)
}

const (
	connectTimeout   = 30 * time.Second // for the broker or the store at the start
	reconnectTimeout = 5 * time.Minute  // for the broker after a connection was lost
)

// JobQueue returns the name of the exclusive queue that the runner of a job holds.
func JobQueue(topology schemas.Topology, id string) string { return lease.Queue(topology, id) }

// connect opens the connection of a job. The error is a *BusyError if another runner is alive.
func (r *Replayer) connect(ctx context.Context, id string, timeout time.Duration) (*lease.Lease, error) {
	l, err := lease.Open(ctx, lease.Config{
		Broker: r.cfg.connection(), Topology: r.cfg.Topology, StateKeys: r.cfg.StateKeys, Login: r.login, Window: maxUnconfirmed,
	}, id, timeout)
	if errors.Is(err, exclusive.ErrLocked) {
		return nil, &BusyError{id}
	}
	return l, err
}

// logOf returns the state of the queue of events.
func (r *Replayer) logOf(ctx context.Context, l *lease.Lease) (Log, error) {
	log, err := planbroker.LogState(ctx, l.CertainQueueState, r.cfg.Topology.Log())
	return Log(log), err
}
