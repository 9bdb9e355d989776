package eventstore

import (
	"context"
	"fmt"
	"time"
)

// WatermarkRecord is the kind of the records that have a Watermarks of a source.
const WatermarkRecord = "watermark"

// Watermarks tell up to which position the events of a source are in the store. There is
// one record for each source, with the source as its id. An indexer enters a queue before
// it gives the first sequence to an event of the queue, and moves its watermark while it
// indexes.
type Watermarks struct {
	Source string               `json:"source"`
	Queues map[string]Watermark `json:"queues"`

	// Brokers has the time of the last save from each RabbitMQ, by the name of its cluster and its virtual host,
	// for an hour. Two that save at the same time write to one source, which they must not.
	Brokers map[string]time.Time `json:"brokers,omitempty"`
}

// Watermark is the state of an indexed queue.
type Watermark struct {
	// Session names the consumer that gives sequences to events of the queue; "": none
	// does, and the one before left no event without a result.
	Session string `json:"session,omitempty"`

	// Sequence is the highest event.sequence up to which all events of the queue are in
	// the store. Later events have higher ones.
	Sequence int64 `json:"sequence"`

	Updated time.Time `json:"updated"`
}

// Bound returns the highest sequence up to which the events of all queues are stored. It
// returns false if no queue has a session, so that every stored event is below the next.
func (w Watermarks) Bound() (sequence int64, isLimited bool) {
	for _, queue := range w.Queues {
		if queue.Session != "" && (!isLimited || queue.Sequence < sequence) {
			sequence, isLimited = queue.Sequence, true
		}
	}
	return sequence, isLimited
}

// WatermarkStore is the part of a store that Complete needs.
type WatermarkStore interface {
	RecordReader
	Refresh(ctx context.Context) error
	HighestSequence(ctx context.Context) (int64, error)
}

// ReadWatermarks returns the watermarks of a source and the version of their record, which
// is "" if no indexer has saved any.
func ReadWatermarks(ctx context.Context, store RecordReader, source string) (w Watermarks, version string, err error) {
	w = Watermarks{Source: source, Queues: map[string]Watermark{}}
	if version, err = ReadRecord(ctx, store, WatermarkRecord, source, &w); err != nil {
		return w, "", fmt.Errorf("reading the watermarks of %s: %w", source, err)
	}
	return w, version, nil
}

// Complete returns the highest sequence up to which the store has every event of a source:
// none with a lower sequence will be added. Searches find them after a refresh.
func Complete(ctx context.Context, store WatermarkStore, source string) (int64, error) {
	watermarks, _, err := ReadWatermarks(ctx, store, source)
	if err != nil {
		return 0, err
	}
	if bound, isLimited := watermarks.Bound(); isLimited {
		return bound, nil
	}
	// Without a session the highest sequence is the bound, if it is read before the
	// record: a consumer that begins later gives higher ones.
	if err := store.Refresh(ctx); err != nil {
		return 0, err
	}
	highest, err := store.HighestSequence(ctx)
	if err != nil {
		return 0, err
	}
	watermarks, _, err = ReadWatermarks(ctx, store, source)
	if bound, isLimited := watermarks.Bound(); isLimited {
		return min(bound, highest), err
	}
	return highest, err
}
