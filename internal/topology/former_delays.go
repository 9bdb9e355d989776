package topology

import (
	"context"
	"slices"

	"github.com/watershipmq/watership/internal/wire"
)

// FormerDelays returns the delay queues of a former release that exist: all if the
// management API answers, else the queues of configured delays. Their messages are
// dead-lettered by the default exchange.
func (r Reconciler) FormerDelays(ctx context.Context) ([]string, error) {
	if d := r.config().Discovery; d != nil {
		if queues, err := d.management.Queues(ctx, d.vhost); err == nil {
			var former []string
			for _, q := range queues {
				if wire.DelaysOf(r.config().Topology).HasFormer(q.Name) {
					former = append(former, q.Name)
				}
			}
			return former, nil
		}
	}
	var former []string
	for _, delay := range slices.Compact(slices.Sorted(slices.Values(r.config().Delays))) {
		name := wire.DelaysOf(r.config().Topology).Former(delay)
		there, err := r.declarer(ctx).queueExists(name)
		if err != nil || !there && former == nil {
			return nil, err // a former release had made the first one
		}
		if there {
			former = append(former, name)
		}
	}
	return former, nil
}

// FormerDelay is a delay queue of a former release.
type FormerDelay struct {
	Name     string
	Messages int64 // 0: the queue was deleted
}

// DeleteFormerDelays deletes the empty delay queues of a former release. Messages in the
// others become due by themselves. Only the management API counts the messages that
// at-least-once dead-lettering has not finished, so without it none is deleted.
func (m Migration) DeleteFormerDelays(ctx context.Context) ([]FormerDelay, error) {
	queues, err := m.Management.Queues(ctx, m.VHost)
	if err != nil {
		return nil, nil //nolint:nilerr // serve and doctor say that it does not answer
	}
	moving, err := m.Management.DeadLettering(ctx, m.VHost)
	if err != nil {
		return nil, err
	}
	var delays []FormerDelay
	for _, q := range queues {
		if !wire.DelaysOf(m.Topology).HasFormer(q.Name) {
			continue
		}
		left, err := m.deleteDelay(ctx, q.Name, max(q.Messages, moving[q.Name]))
		if err != nil {
			return delays, err
		}
		delays = append(delays, FormerDelay{q.Name, left})
	}
	return delays, nil
}

// deleteDelay deletes a queue that is empty now, and was when the management API counted
// some seconds ago, or returns the number of messages left. Quorum queues cannot be
// deleted with if-empty.
func (m Migration) deleteDelay(ctx context.Context, queue string, counted int64) (left int64, err error) {
	state, _, err := m.Conn.CertainQueueState(ctx, queue)
	if err != nil {
		return 0, err
	}
	if left := max(counted, int64(state.Messages)); left > 0 {
		return left, nil
	}
	return 0, deleteEmpty(ctx, m.Conn, queue)
}
