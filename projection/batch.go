package projection

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/history/bodies"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

// batch has the events of one transaction. They are read before it begins, so that a
// transaction never waits for the store.
type batch struct {
	limits   Config
	items    []subscription.Item
	position eventstore.Cursor // after the items; the zero value does not change the checkpoint
	bytes    int
	begun    time.Time
}

func newBatch(limits Config) *batch { return &batch{limits: limits} }

func (b *batch) add(item subscription.Item) {
	if len(b.items) == 0 {
		b.begun = time.Now()
	}
	b.items = append(b.items, item)
	b.bytes += len(item.Event.Envelope.Body)
	if !b.limits.WithoutBodies && item.Event.BodyIn != schemas.BodyHere {
		b.bytes += item.Event.BodySize
	}
	if item.Err == nil {
		b.position = item.Position
	}
}

func (b *batch) isFull() bool {
	return len(b.items) > 0 && (len(b.items) >= b.limits.BatchEvents || b.bytes >= maxBatchBytes || time.Since(b.begun) >= b.limits.BatchTime)
}

// single returns a batch with one of the items. The last one also has the position after all.
func (b *batch) single(i int) *batch {
	one := newBatch(b.limits)
	one.add(b.items[i])
	if i == len(b.items)-1 {
		one.position = b.position
	}
	return one
}

// hasUnreadable reports whether an item is a document that is no event.
func (b *batch) hasUnreadable() bool {
	for _, item := range b.items {
		if item.Err != nil {
			return true
		}
	}
	return false
}

// findBodies loads the bodies that are not in the events themselves.
func (r *runner) findBodies(ctx context.Context, b *batch) error {
	missing := bodies.NewMissing(r.cfg.Fingerprints)
	for i := range b.items {
		if item := &b.items[i]; r.lacksBody(*item) {
			missing.Add(ctx, &item.Event)
		}
	}
	if err := missing.FindStored(ctx, r.cfg.Reader.Store); err != nil {
		return &storeError{err}
	}
	if missing.Len() == 0 || r.cfg.URL == "" {
		return nil
	}
	if err := r.findUnstorable(ctx, missing); err != nil {
		return &storeError{err}
	}
	return nil
}

const unstorableTimeout = 30 * time.Second // for RabbitMQ to be there and answer

// findUnstorable connects to RabbitMQ for one batch, since few bodies are too large for the store.
func (r *runner) findUnstorable(ctx context.Context, missing bodies.Missing) error {
	ctx, cancel := context.WithTimeoutCause(ctx, unstorableTimeout, fmt.Errorf("RabbitMQ did not answer within %s", unstorableTimeout))
	defer cancel()
	at := rabbit.At(r.cfg.Connection, "projection", r.cfg.Logger)
	at.LargeFrames = true
	conn, err := rabbit.Open(at)
	if err != nil {
		return err
	}
	return errors.Join(missing.FindUnstorable(ctx, conn, r.cfg.Topology.Unstorable()), conn.Close())
}

func (r *runner) lacksBody(item subscription.Item) bool {
	return !r.cfg.WithoutBodies && item.Err == nil && item.Event.BodyIn != schemas.BodyHere
}

// splitAtBody returns the events before the first one whose body may be stored later, and an error
// that says so; nil: each has its body, or gets none.
func (r *runner) splitAtBody(b *batch) (before *batch, missing error) {
	i := slices.IndexFunc(b.items, func(item subscription.Item) bool { return r.lacksBody(item) && bodies.MayCome(item.Event) })
	if i < 0 {
		return nil, nil
	}
	before = newBatch(b.limits)
	for _, item := range b.items[:i] {
		before.add(item)
	}
	return before, fmt.Errorf("the body of event %s is not stored yet", b.items[i].Event.EventID)
}

// errNoBody is the reason why an event without a body fails.
func errNoBody(event schemas.Event) error {
	if event.BodyIn == schemas.BodyInUnstorable {
		return retry.Permanent(errors.New("its body is too large for the store, and was not found in the queue of unstorable messages (Config.URL, Config.WithoutBodies)"))
	}
	return retry.Permanent(errors.New("it has no body, and no other event of its message has it: it may be past its retention (Config.WithoutBodies)"))
}

// items yields the events after the checkpoint.
func (r *runner) items(ctx context.Context) iter.Seq2[subscription.Item, error] {
	reader := r.cfg.Reader
	reader.Accept = max(reader.Accept, r.generation.accepted)
	if r.generation.State == Past {
		return untilSequence(reader.Items(ctx, r.generation.Position), r.generation.upTo())
	}
	return reader.Items(ctx, r.generation.Position)
}
