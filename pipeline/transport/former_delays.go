package transport

import (
	"context"
	"slices"
)

// FormerDelays returns the delay queues of a former release that exist: all if the
// management API answers, else the queues of configured delays. Their messages are
// dead-lettered by the default exchange.
func (l LiveTopology) FormerDelays(ctx context.Context) ([]string, error) {
	if d := l.Config.Discovery; d != nil {
		if queues, err := d.management.Queues(ctx, d.vhost); err == nil {
			var former []string
			for _, q := range queues {
				if l.Config.IsFormerDelay(q.Name) {
					former = append(former, q.Name)
				}
			}
			return former, nil
		}
	}
	var former []string
	for _, delay := range slices.Compact(slices.Sorted(slices.Values(l.Config.Delays))) {
		name := l.Config.FormerDelay(delay)
		there, err := l.on(ctx).queueExists(name)
		if err != nil || !there && former == nil {
			return nil, err // a former release had made the first one
		}
		if there {
			former = append(former, name)
		}
	}
	return former, nil
}
