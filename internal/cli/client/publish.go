package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"golang.org/x/time/rate"

	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/schemas"
)

// Limits of a request that publishes.
const (
	batchMessages = 500
	batchBytes    = 4 << 20
	batchTime     = 200 * time.Millisecond // while the rate is limited
)

// Publish publishes messages in order, at most perSecond (0: no limit), and
// returns how many are confirmed. It ends at the first message that is not.
func (c *Client) Publish(ctx context.Context, envelopes iter.Seq2[schemas.Envelope, error], perSecond float64, progress func(confirmed int)) (confirmed int, err error) {
	limiter := rate.NewLimiter(rate.Inf, 1)
	if perSecond > 0 {
		limiter.SetLimit(rate.Limit(perSecond))
	}
	b := batch{client: c, progress: progress}
	for e, err := range envelopes {
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
	count     int // of messages
	began     time.Time
	confirmed int
}

// add adds a message, and sends the request if it is full.
func (b *batch) add(ctx context.Context, e schemas.Envelope) error {
	if b.count == 0 {
		b.began = time.Now()
	}
	document := schemas.DocumentFormat{NoBodyText: true, NoBodyJSON: true}.Append(nil, schemas.Event{Action: schemas.Published, Envelope: e, BodySize: len(e.Body)})
	b.documents.Write(append(document, '\n'))
	if b.count++; b.count < batchMessages && b.documents.Len() < batchBytes && time.Since(b.began) < batchTime {
		return nil
	}
	return b.send(ctx)
}

func (b *batch) send(ctx context.Context) error {
	if b.count == 0 {
		return nil
	}
	done, err := messages.PublishMessages.Call(ctx, b.client, messages.BatchInput{RawBody: b.documents.Bytes()})
	var refused *Error
	switch {
	case err == nil:
		b.confirmed += done.Body.Published
	case errors.As(err, &refused) && !refused.IsLost():
		b.confirmed += refused.Done
	default:
		err = fmt.Errorf("%w\nit is not known whether %s published", err, wording.PluralVerb(b.count, "message", "was", "were"))
	}
	b.documents.Reset()
	b.count = 0
	b.progress(b.confirmed)
	return err
}
