package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/schemas"
)

// Message is a message with its history.
type Message struct {
	history.Life
	Event schemas.Event // with the whole message, if there is one
}

// Messages returns the messages with an id, and whether there are more of them. Their
// bodies are missing if the caller may not read them.
func (c *Client) Messages(ctx context.Context, id string) (list []Message, more bool, err error) {
	query := url.Values{"body": {strconv.FormatBool(c.MayReadBodies())}}
	var found messages.Messages
	if err := c.get(ctx, readTimeout, "/messages/"+operation.Segment(id), query, &found); err != nil {
		return nil, false, err
	}
	for _, m := range found.Messages {
		parsed := Message{Life: history.Life{More: m.More}}
		if parsed.Event, err = schemas.ParseDocument(m.Event); err != nil {
			return nil, false, err
		}
		for _, document := range m.History {
			e, err := schemas.ParseDocument(document)
			if err != nil {
				return nil, false, err
			}
			parsed.Events = append(parsed.Events, e)
		}
		list = append(list, parsed)
	}
	return list, found.More, nil
}

// Stream returns the messages of a stream, at most limit (0: all).
func (c *Client) Stream(ctx context.Context, id string, limit int) (whole history.Stream, err error) {
	query := url.Values{}
	for {
		setInt(query, "limit", history.MaxStreamPage)
		if limit > 0 {
			setInt(query, "limit", min(history.MaxStreamPage, limit-len(whole.Messages)))
		}
		var page messages.StreamPage
		if err := c.get(ctx, readTimeout, "/streams/"+operation.Segment(id), query, &page); err != nil {
			return whole, err
		}
		page.Messages = append(whole.Messages, page.Messages...)
		whole = page.Stream
		if page.Cursor == "" || limit > 0 && len(whole.Messages) >= limit {
			return whole, nil
		}
		query.Set("cursor", page.Cursor)
	}
}

// SeveralError reports that several messages have an id.
type SeveralError struct{ ID string }

// Error implements error.
func (e *SeveralError) Error() string { return fmt.Sprintf("%q is the id of several messages", e.ID) }

// Body returns the body of the message with an id. The error is a *SeveralError if
// several messages have the id.
func (c *Client) Body(ctx context.Context, id string) (body []byte, err error) {
	err = c.get(ctx, readTimeout, "/messages/"+operation.Segment(id)+"/body", nil, &body)
	var refused *Error
	if errors.As(err, &refused) && refused.Status == http.StatusConflict {
		err = &SeveralError{id}
	}
	return body, err
}

// Limits of a request that publishes.
const (
	batchMessages = 500
	batchBytes    = 4 << 20
	batchTime     = 200 * time.Millisecond // while the rate is limited
)

// Publish publishes messages in order, at most perSecond (0: no limit), and
// returns how many are confirmed. It ends at the first message that is not.
func (c *Client) Publish(ctx context.Context, messages iter.Seq2[schemas.Envelope, error], perSecond float64, progress func(confirmed int)) (confirmed int, err error) {
	limiter := rate.NewLimiter(rate.Inf, 1)
	if perSecond > 0 {
		limiter.SetLimit(rate.Limit(perSecond))
	}
	b := batch{client: c, progress: progress}
	for e, err := range messages {
		if err == nil {
			err = limiter.Wait(ctx)
		}
		if err == nil {
			err = b.add(ctx, e)
		}
		if err != nil {
			return b.confirmed, errors.Join(err, b.send(ctx))
		}
	}
	err = b.send(ctx)
	return b.confirmed, err
}

// batch has the messages of the next request.
type batch struct {
	client    *Client
	progress  func(confirmed int)
	documents bytes.Buffer
	messages  int
	began     time.Time
	confirmed int
}

// add adds a message, and sends the request if it is full.
func (b *batch) add(ctx context.Context, e schemas.Envelope) error {
	if b.messages == 0 {
		b.began = time.Now()
	}
	document := schemas.DocumentFormat{NoBodyText: true, NoBodyJSON: true}.Append(nil, schemas.Event{Action: schemas.Published, Envelope: e, BodySize: len(e.Body)})
	b.documents.Write(append(document, '\n'))
	if b.messages++; b.messages < batchMessages && b.documents.Len() < batchBytes && time.Since(b.began) < batchTime {
		return nil
	}
	return b.send(ctx)
}

func (b *batch) send(ctx context.Context) error {
	if b.messages == 0 {
		return nil
	}
	var done messages.Batch
	err := b.client.do(ctx, actTimeout, request{
		method: http.MethodPost, path: "/messages/batch", body: b.documents.Bytes(), contentType: "application/x-ndjson", key: newKey(),
	}, &done)
	var refused *Error
	switch {
	case err == nil:
		b.confirmed += done.Published
	case errors.As(err, &refused) && (refused.answered || !refused.away()):
		b.confirmed += refused.Published
	default:
		err = fmt.Errorf("%w\nit is not known whether %s published", err, wording.PluralVerb(b.messages, "message", "was", "were"))
	}
	b.documents.Reset()
	b.messages = 0
	b.progress(b.confirmed)
	return err
}
