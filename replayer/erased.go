package replayer

import (
	"context"
	"errors"
	"fmt"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/schemas"
)

// mayBeErased reports whether messages of the scan may have been erased. Their sealed originals tell it, and so the
// events have to be read with their bodies. An event without the body may not know the subject of its message.
func (s *scan) mayBeErased(ctx context.Context) (bool, error) {
	if s.r.cfg.Opener == nil {
		return false, nil
	}
	aboutSubjects := kql.Exists{Field: kql.Pattern{"watership.subject"}}
	some, err := hasEvent(ctx, s.r.cfg.Store, eventstore.Selection{Query: aboutSubjects})
	if err != nil || !some {
		return false, err
	}
	selection := s.selection
	selection.Query = and(selection.Query, kql.Or{aboutSubjects, kql.Exists{Field: kql.Pattern{"watership.body_in"}}})
	return hasEvent(ctx, s.r.cfg.Store, selection)
}

func hasEvent(ctx context.Context, store Store, selection eventstore.Selection) (bool, error) {
	selection.Limit = 1
	for _, err := range store.Summaries(ctx, selection) {
		if err != nil {
			return false, fmt.Errorf("looking for messages that may have been erased: %w", err)
		}
		return true, nil
	}
	return false, nil
}

// isErased reports whether the key of a person whom a message is about was destroyed. It fails if the store does
// not answer that has the key. The scan has opened the message of the event if it could then.
func (c converter) isErased(ctx context.Context, e *schemas.Event) (bool, error) {
	if !e.Envelope.Redacted || c.opener == nil {
		return false, nil
	}
	err := c.opener.Open(ctx, e)
	if _, unread := errors.AsType[*eventstore.Error](err); unread {
		return false, err
	}
	_, erased := errors.AsType[*privacy.ErasedError](err)
	return erased, nil
}
