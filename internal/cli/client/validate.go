package client

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/pipeline/bodyschema"
)

// ValidateWith checks the bodies of the messages of a selection with a schema of this machine.
func (c *Client) ValidateWith(ctx context.Context, schema *bodyschema.Schema, sel eventstore.Selection, each func(messages.InvalidMessage) error) (messages.Summary, error) {
	sel.Order = eventstore.BySequence
	return messages.Run(ctx, messages.ValidationConfig{Store: c, Schema: schema}, sel, each)
}

// Validate checks the bodies of the messages of a selection with the schema of a queue's route.
func (c *Client) Validate(ctx context.Context, queue string, sel eventstore.Selection, each func(messages.InvalidMessage) error) (messages.Summary, error) {
	filter, err := c.filter(sel.Query)
	if err != nil {
		return messages.Summary{}, err
	}
	s, err := openStream(ctx, c.connection, messages.ValidateEvents, messages.ValidateInput{QueryFilter: filter, Queue: queue}, "application/x-ndjson", 2*idleTimeout)
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
