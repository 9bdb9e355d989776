package cli

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operation/eventjson"
	"github.com/watershipmq/watership/schemas"
)

// maxPage is the maximum number of items of a page of the API.
const maxPage = 1000

// PageSize implements operations.
func (r remote) PageSize() int { return maxPage }

// Check implements reader: the server checks the store if it finds nothing.
func (r remote) Check(context.Context) error { return nil }

// MayReadBodies implements reader.
func (r remote) MayReadBodies() bool { return r.Server().Caller.Bodies }

// Retention implements backend.
func (r remote) Retention() time.Duration {
	return time.Duration(r.Server().Settings.RetentionSeconds) * time.Second
}

// Events implements reader, without bodies if the caller may not read them.
func (r remote) Events(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		filter, err := queryFilter(r, sel.Query)
		if err != nil {
			yield(schemas.Event{}, err)
			return
		}
		in := messages.SearchInput{QueryFilter: filter, WithBody: !sel.WithoutBody && r.MayReadBodies(), Limit: maxPage}
		for left := sel.Limit; ; {
			if sel.Limit > 0 {
				in.Limit = min(maxPage, left)
			}
			page, err := messages.SearchEvents.Call(ctx, r, in)
			if err != nil {
				yield(schemas.Event{}, err)
				return
			}
			if !yieldPage(page.Body, yield) {
				return
			}
			left -= len(page.Body.Events)
			if in.Cursor = page.Body.Cursor; in.Cursor == "" || sel.Limit > 0 && left <= 0 {
				return
			}
		}
	}
}

func yieldPage(page messages.EventPage, yield func(schemas.Event, error) bool) bool {
	for _, why := range page.Unreadable {
		if !yield(schemas.Event{}, errors.New(why)) {
			return false
		}
	}
	for _, document := range page.Events {
		if !yield(schemas.ParseDocument(document)) {
			return false
		}
	}
	return true
}

// Whole implements reader.
func (r remote) Whole(ctx context.Context, of schemas.Event) (schemas.Event, error) {
	found, err := messages.GetEvent.Call(ctx, r, messages.EventInput{ID: of.EventID})
	if err != nil {
		return schemas.Event{}, err
	}
	return schemas.ParseDocument(found.Body)
}

// Count implements reader.
func (r remote) Count(ctx context.Context, sel eventstore.Selection) (int64, error) {
	filter, err := queryFilter(r, sel.Query)
	if err != nil {
		return 0, err
	}
	counted, err := messages.CountEvents.Call(ctx, r, messages.CountInput{QueryFilter: filter})
	return counted.Body.Count, err
}

// TopValues implements system.Counts.
func (r remote) TopValues(ctx context.Context, sel eventstore.Selection, field string, n int) (eventstore.Aggregation, error) {
	filter, err := queryFilter(r, sel.Query)
	if err != nil {
		return eventstore.Aggregation{}, err
	}
	counted, err := messages.CountValues.Call(ctx, r, messages.ValuesInput{QueryFilter: filter, Field: field, Limit: n})
	return aggregation(counted.Body), err
}

// Histogram implements system.Counts. Days begin in the zone.
func (r remote) Histogram(ctx context.Context, sel eventstore.Selection, field string, n int, zone *time.Location) (eventstore.Aggregation, error) {
	filter, err := queryFilter(r, sel.Query)
	if err != nil {
		return eventstore.Aggregation{}, err
	}
	filter.Zone = client.ZoneName(zone)
	counted, err := messages.CountOverTime.Call(ctx, r, messages.HistogramInput{QueryFilter: filter, Field: field, Steps: n})
	return aggregation(counted.Body), err
}

func aggregation(values messages.Values) eventstore.Aggregation {
	counts := eventstore.Aggregation{Others: values.Others, Without: values.Without, Inexact: values.Inexact}
	for _, value := range values.Values {
		counts.Values = append(counts.Values, eventstore.Bucket{Text: value.Value, Count: value.Count})
	}
	return counts
}

// Messages implements reader. Their bodies are missing if the caller may not read them.
func (r remote) Messages(ctx context.Context, id string) (list []foundMessage, more bool, err error) {
	found, err := messages.GetMessages.Call(ctx, r, messages.MessagesInput{ID: id, WithBody: r.MayReadBodies()})
	if err != nil {
		return nil, false, err
	}
	for _, m := range found.Body.Messages {
		parsed := foundMessage{Life: history.Life{More: m.More}}
		if parsed.Event, err = schemas.ParseDocument(m.Event); err != nil {
			return nil, false, err
		}
		if parsed.Events, err = parseAll(m.History); err != nil {
			return nil, false, err
		}
		list = append(list, parsed)
	}
	return list, found.Body.More, nil
}

func parseAll(documents []eventjson.Document) (events []schemas.Event, err error) {
	for _, document := range documents {
		e, err := schemas.ParseDocument(document)
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

// Stream implements reader.
func (r remote) Stream(ctx context.Context, id string, limit int) (whole history.Stream, err error) {
	in := messages.StreamInput{ID: id}
	for {
		in.Limit = history.MaxStreamPage
		if limit > 0 {
			in.Limit = min(history.MaxStreamPage, limit-len(whole.Messages))
		}
		page, err := messages.GetStream.Call(ctx, r, in)
		if err != nil {
			return whole, err
		}
		page.Body.Messages = append(whole.Messages, page.Body.Messages...)
		whole = page.Body.Stream
		if in.Cursor = page.Body.Cursor; in.Cursor == "" || limit > 0 && len(whole.Messages) >= limit {
			return whole, nil
		}
	}
}

// Body implements reader.
func (r remote) Body(ctx context.Context, id string) ([]byte, error) {
	body, err := messages.GetBody.Call(ctx, r, messages.BodyInput{ID: id})
	var refused *client.Error
	if errors.As(err, &refused) && refused.Status == http.StatusConflict {
		err = &severalError{id}
	}
	return body.Body, err
}
