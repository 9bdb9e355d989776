package client

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/pipeline/bodyschema"
	"github.com/watershipmq/watership/schemas"
)

// ValidateWith checks the bodies of the messages of a selection with a schema of this machine.
func (c *Client) ValidateWith(ctx context.Context, schema *bodyschema.Schema, sel eventstore.Selection, each func(messages.InvalidMessage) error) (messages.Summary, error) {
	return messages.Run(ctx, messages.ValidationConfig{Store: exported{c}, Schema: schema}, sel, each)
}

// exported are the events of a server with their bodies.
type exported struct{ client *Client }

// Events implements bodies.Store. An error that ends the export is one of the store.
func (e exported) Events(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		sel.Order = eventstore.BySequence
		for event, err := range e.client.Events(ctx, sel) {
			var failed *Error
			if errors.As(err, &failed) {
				err = &eventstore.Error{Reason: "reading events through the server", Err: err}
			}
			if !yield(event, err) {
				return
			}
		}
	}
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
