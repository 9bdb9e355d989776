package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/schemas"
)

const (
	importEvents   = 500
	importBytes    = 5 << 20
	importInterval = 500 * time.Millisecond // before documents that the store was too busy for are sent again
	importTries    = 20
)

// Store is a store that documents are imported into.
type Store interface {
	Check(ctx context.Context) error
	Install(ctx context.Context) error
	Find(ctx context.Context, ids []string) (map[string]eventstore.DocumentID, error)
	Create(ctx context.Context, documents []schemas.Document) ([]eventstore.Result, error)
}

// Import creates the documents of an export in a store. Existing documents stay as they
// are, so that an import can be repeated.
type Import struct {
	Store    Store
	Format   schemas.DocumentFormat
	Progress func(documents int)

	// Expired is called with the first event that is older than the retention of its stream,
	// before it is sent to the store, which will remove it. An export has the oldest events first.
	Retention map[schemas.Stream]time.Duration
	Expired   func(schemas.Event, schemas.Stream)

	// Results of Read.
	Created  int
	Existing int
	Refused  int
	Reasons  []Refusal // of the first refused documents
}

// Refusal is the reason why a document was refused.
type Refusal struct{ EventID, Reason string }

const maxReasons = 10

// Run creates the documents of in, in batches. A refused document does not end it. It
// first installs the templates in a new store.
func (i *Import) Run(ctx context.Context, in io.Reader) error {
	if i.Store.Check(ctx) != nil {
		if err := i.Store.Install(ctx); err != nil {
			return err
		}
	}
	return i.read(ctx, in)
}

func (i *Import) read(ctx context.Context, in io.Reader) error {
	var batch []schemas.Event
	size, told := 0, false
	for event, err := range Read(in) {
		if err != nil {
			return errors.Join(i.createMissing(ctx, batch), err)
		}
		if why := event.Check(time.Now()); why != nil {
			i.recordRefusal(event.EventID, why.Error())
			continue
		}
		stream := i.Format.Stream(event)
		if kept, limited := i.Retention[stream]; !told && limited && time.Since(event.Time) > kept {
			told = true
			i.Expired(event, stream)
		}
		batch = append(batch, event)
		if size += documentBytes(event); len(batch) < importEvents && size < importBytes {
			continue
		}
		if err := i.createMissing(ctx, batch); err != nil {
			return err
		}
		batch, size = batch[:0], 0
	}
	return i.createMissing(ctx, batch)
}

// documentBytes is about the size of an event's document, whose JSON body is in it twice.
func documentBytes(e schemas.Event) int {
	const fields = 2 << 10
	return fields + 2*len(e.Envelope.Body) + 2*len(e.Sealed)
}

// createMissing omits events that are stored already, also in older indices.
func (i *Import) createMissing(ctx context.Context, events []schemas.Event) error {
	ids := make([]string, len(events))
	for n, event := range events {
		ids[n] = event.EventID
	}
	found, err := i.Store.Find(ctx, ids)
	if err != nil {
		return err
	}
	var left []schemas.Event
	for _, event := range events {
		if _, exists := found[event.EventID]; exists {
			i.Existing++
			continue
		}
		left = append(left, event)
	}
	format, err := i.Format.For(ctx, left)
	if err != nil {
		return err
	}
	docs := make([]schemas.Document, len(left))
	for n, event := range left {
		docs[n] = format.Document(event)
	}
	err = i.createAll(ctx, docs)
	i.Progress(i.Created + i.Existing + i.Refused)
	return err
}

// createAll sends documents again that the store is too busy for, and sends the halves of
// a batch that it refuses as a whole.
func (i *Import) createAll(ctx context.Context, docs []schemas.Document) error {
	var err error
	for try := 0; len(docs) > 0 && try < importTries; try++ {
		if try > 0 {
			if err := backoff.Sleep(ctx, importInterval); err != nil {
				return err
			}
		}
		var failed *eventstore.Error
		var busy []schemas.Document
		busy, err = i.send(ctx, docs)
		switch {
		case err == nil:
			docs = busy
		case !errors.As(err, &failed):
			return err
		case failed.Kind == eventstore.RequestTooLarge, failed.Kind == eventstore.BadRequest:
			return i.splitAndRetry(ctx, docs, err)
		case failed.Kind != eventstore.Overloaded:
			return err
		}
	}
	if len(docs) > 0 && err == nil {
		err = fmt.Errorf("the store would not take %s", wording.Plural(len(docs), "event"))
	}
	return err
}

// splitAndRetry finds the document for which the store refuses the batch.
func (i *Import) splitAndRetry(ctx context.Context, docs []schemas.Document, why error) error {
	if len(docs) == 1 {
		i.recordRefusal(docs[0].ID, why.Error())
		return nil
	}
	half := len(docs) / 2
	if err := i.createAll(ctx, docs[:half]); err != nil {
		return err
	}
	return i.createAll(ctx, docs[half:])
}

func (i *Import) send(ctx context.Context, docs []schemas.Document) (busy []schemas.Document, err error) {
	results, err := i.Store.Create(ctx, docs)
	for n, result := range results {
		switch result.Status {
		case eventstore.Created:
			i.Created++
		case eventstore.Conflict:
			i.Existing++
		case eventstore.Busy:
			busy = append(busy, docs[n])
		default:
			i.recordRefusal(docs[n].ID, result.Reason)
		}
	}
	return busy, err
}

func (i *Import) recordRefusal(id, why string) {
	if i.Refused++; len(i.Reasons) < maxReasons {
		i.Reasons = append(i.Reasons, Refusal{id, why})
	}
}
