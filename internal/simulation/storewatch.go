package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"sync"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/schemas"
)

// storeWatch reads the requests of the store.
type storeWatch struct {
	mu       sync.Mutex // guards the fields below
	complete int64      // a reader may have read all events up to this sequence, and reads no earlier one again
	highest  int64      // sequence in the store
	number   int        // of events in the store

	// summaries are the summaries of the store when it had read events. Only the goroutine of the run uses them, which
	// looks at them again and again.
	summaries []eventstore.EventSummary
	read      int
}

// events returns the events of the store.
func (w *storeWatch) events(ctx context.Context, store system.EventStore) ([]eventstore.EventSummary, error) {
	w.mu.Lock()
	number := w.number
	w.mu.Unlock()
	if w.read == number {
		return w.summaries, nil
	}
	w.summaries, w.read = nil, 0
	for e, err := range store.Summaries(ctx, eventstore.Selection{}) {
		if err != nil {
			return nil, err
		}
		w.summaries = append(w.summaries, e)
	}
	w.read = number
	return w.summaries, nil
}

// created looks at documents that a process has created.
func (w *world) created(documents []schemas.Document, results []eventstore.Result) {
	for i, result := range results {
		if result.Status != eventstore.Created {
			continue
		}
		text := documents[i].Source
		w.watch.mu.Lock()
		w.watch.number++
		sequence := sequenceOf(text)
		w.watch.highest = max(w.watch.highest, sequence)
		complete := w.watch.complete
		w.watch.mu.Unlock()
		if sequence > 0 && sequence <= complete {
			w.fail("an event was stored with sequence %d, and readers had all events up to %d: %s", sequence, complete, text)
		}
		if bytes.Contains(text, []byte(schemas.Poisoned)) {
			if e, err := schemas.ParseDocument(text); err == nil && e.Action == schemas.Poisoned {
				w.oracle.isPoison(e.Envelope.Properties.MessageID)
			}
		}
	}
}

func sequenceOf(document []byte) int64 {
	_, after, _ := bytes.Cut(document, []byte(`"sequence":`))
	end := bytes.IndexFunc(after, func(r rune) bool { return r < '0' || r > '9' })
	n, _ := strconv.ParseInt(string(after[:max(0, end)]), 10, 64)
	return n
}

// saved looks at a record that a process has saved; without a version it has not.
func (w *world) saved(kind, version string, document []byte) {
	var marks eventstore.Watermarks
	if kind != eventstore.WatermarkRecord || version == "" || json.Unmarshal(document, &marks) != nil {
		return
	}
	w.watch.mu.Lock()
	defer w.watch.mu.Unlock()
	bound, limited := marks.Bound()
	if !limited {
		bound = w.watch.highest
	}
	w.watch.complete = max(w.watch.complete, bound)
}
