package subscription

import (
	"context"
	"errors"
	"fmt"

	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
)

// Upcast changes messages of former versions into the version that the target knows.
type Upcast struct {
	// Program is in the language of jq, as package transform has it. It chooses by the fields of a message, such
	// as .properties.type and .headers.version, and returns other messages as they are. A message for
	// which it fails or has no output is poison; one for which it exceeds a limit of its process stops the
	// subscription. To a queue, it keeps the exchange and the routing key. "": none.
	Program string `json:"program"`

	// Version counts the programs of the subscription, from 1. Reasons of parked messages have it.
	Version int64 `json:"version"`
}

// parse returns the program; nil: none.
func (u Upcast) parse() (*transform.Program, error) {
	if u.Program == "" {
		return nil, nil
	}
	return transform.Parse(u.Program)
}

// upcaster upcasts the messages of one run of a subscription.
type upcaster struct {
	program  *transform.Program // nil: none
	version  int64
	target   Target
	programs *transform.Processes
}

func newUpcaster(cfg Config, sub Subscription) (upcaster, error) {
	program, err := sub.Upcast.parse()
	return upcaster{program, sub.Upcast.Version, sub.Target, cfg.Programs}, err
}

// page upcasts the messages of a page, and returns how many items are ready: all of them, those whose bodies have pageBytes,
// after which the caller goes on with the rest, or those before an error that ends the session. An error that concerns
// one message is its outcome.
func (u upcaster) page(ctx context.Context, page []*sent) (ready int, err error) {
	if u.program == nil {
		return len(page), nil
	}
	var places []int // in the page
	var messages []schemas.Envelope
	for i, one := range page {
		if !one.CaughtUp && one.Err == nil && one.Event.BodyIn == schemas.BodyHere && !one.Event.Envelope.Redacted && !u.target.causes(one.Event) {
			places, messages = append(places, i), append(messages, one.Event.Envelope)
		}
	}
	for bytes := 0; len(messages) > 0; {
		if bytes >= pageBytes {
			return places[0], nil
		}
		results := u.programs.Apply(ctx, u.program, messages...)
		for i, result := range results {
			if err := u.finish(page[places[i]], result); err != nil {
				return places[i], err
			}
			bytes += len(page[places[i]].Event.Envelope.Body)
		}
		places, messages = places[len(results):], messages[len(results):]
	}
	return len(page), nil
}

// finish gives an item the message that the program made of it.
func (u upcaster) finish(one *sent, result transform.Result) error {
	upcast, err := u.target.Upcast(one.Event.Envelope, result)
	var failed *transform.Error
	var limit *transform.LimitError
	switch {
	case err == nil:
		one.Event.Envelope = upcast
	case errors.As(err, &failed):
		one.err = poison(UpcastFailed, fmt.Errorf("version %d: %s", u.version, failed.Problem))
	case errors.As(err, &limit):
		return stopError{fmt.Errorf("event %s at position %s cannot be upcast by version %d: %w", one.Event.EventID, FormatPosition(one.Position), u.version, limit)}
	default:
		return fmt.Errorf("upcasting event %s: %w", one.Event.EventID, err)
	}
	return nil
}

// Upcast returns the message that the target gets, for the result of Upcast.Program for a recorded one. A
// *transform.Error makes the message poison.
func (t Target) Upcast(recorded schemas.Envelope, result transform.Result) (schemas.Envelope, error) {
	upcast := result.Message
	switch {
	case result.Err != nil:
		return recorded, result.Err
	case !result.Keep:
		return recorded, &transform.Error{Problem: "it has no output, although the query chooses the messages"}
	case t.Kind == ToQueue && (upcast.Exchange != recorded.Exchange || upcast.RoutingKey != recorded.RoutingKey):
		return recorded, &transform.Error{Problem: "it changes the exchange or the routing key of a message that is sent to a queue"}
	}
	return upcast, nil
}
