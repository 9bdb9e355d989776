package subscription

import (
	"context"
	"time"

	"github.com/watershipmq/watership/eventstore"
)

// changesKind is the kind of the record of a source that gets another version with each change of a
// subscription but its checkpoint. A process that runs subscriptions reads it each second: a record is read
// by its id, while to list all of them makes Elasticsearch refresh an index that changes all the time.
const changesKind = "subscriptions"

// listInterval is the time after which subscriptions are listed in any case, such as those that a process of a
// former version has changed.
const listInterval = 30 * time.Second

// noteChange notes that a subscription was changed, after it was. If another process notes a change at the same
// time, there is another version, too.
func (s *Subscriptions) noteChange(ctx context.Context) {
	_, version, err := s.cfg.Store.Record(ctx, changesKind, s.cfg.Source)
	if err == nil {
		_, err = eventstore.SaveRecord(ctx, s.cfg.Store, changesKind, s.cfg.Source, version, struct{}{})
	}
	if err != nil {
		s.cfg.Logger.Warn("a changed subscription has an effect within "+listInterval.String()+" only", "error", err)
	}
}

// listChanged lists the subscriptions again if one was changed.
func (s *serving) listChanged(ctx context.Context) error {
	_, version, err := s.cfg.Store.Record(ctx, changesKind, s.cfg.Source)
	if err != nil || version == s.version && time.Since(s.listed) < listInterval {
		return err
	}
	list, err := s.List(ctx)
	if err == nil {
		s.list, s.version, s.listed = list, version, time.Now()
	}
	return err
}
