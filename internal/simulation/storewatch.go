package simulation

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// storeWatch reads the requests of the store.
type storeWatch struct {
	mu       sync.Mutex // guards the fields below
	complete int64      // a reader may have read all events up to this sequence, and reads no earlier one again
	highest  int64      // sequence in the store
}

// created looks at documents that a process has created.
func (w *world) created(documents []schemas.Document, results []eventstore.Result) {
	for i, result := range results {
		if result.Status != eventstore.Created {
			continue
		}
		text := documents[i].Source
		w.watch.mu.Lock()
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
