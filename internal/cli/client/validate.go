package client

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/operate/messages"
)

// Validate checks the bodies of the messages of a selection with the schema of a queue's route.
func (c *Client) Validate(ctx context.Context, queue string, sel eventstore.Selection, each func(messages.InvalidMessage) error) (messages.Summary, error) {
	s, err := openStream(ctx, c.connection, messages.ValidateEvents, messages.ValidateInput{QueryFilter: filter(sel.Query), Queue: queue}, "application/x-ndjson", 2*idleTimeout)
	if err != nil {
		return messages.Summary{}, err
	}
	defer s.close()
	for {
		line, err := s.line()
		if err != nil {
			return messages.Summary{}, errors.Join(errors.New("the server ended the validation before its end: repeat it"), err)
		}
		var v messages.Validation
		if err := json.Unmarshal(line, &v); err != nil {
			return messages.Summary{}, err
		}
		if v.Summary != nil {
			return *v.Summary, nil
		}
		if v.Failure == nil {
			continue
		}
		if err := each(*v.Failure); err != nil {
			return messages.Summary{}, err
		}
	}
}
