package waiting

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/schemas"
)

// Action is what an operator decides about waiting messages.
type Action string

// Actions.
const (
	Now      Action = "now"      // the next attempt follows at once
	Postpone Action = "postpone" // it follows at a later time
	Cancel   Action = "cancel"   // none follows
)

// Decision is an operator's decision about waiting messages.
type Decision struct {
	Action    Action    `json:"action"`
	NotBefore time.Time `json:"not_before,omitzero"` // of the next attempt, for Postpone
	Operator  string    `json:"operator"`
	Reason    string    `json:"reason"`
}

// Check returns an error for a decision that cannot be carried out.
func (d Decision) Check(now time.Time) error {
	return cmp.Or(d.CheckTime(now), reason.Need(d.Reason))
}

// CheckTime is Check for a decision without a reason.
func (d Decision) CheckTime(now time.Time) error {
	postpones := d.Action == Postpone
	switch {
	case d.Action != Now && d.Action != Cancel && !postpones:
		return fmt.Errorf("action %q: expected now, postpone or cancel", d.Action)
	case !postpones && !d.NotBefore.IsZero():
		return fmt.Errorf("%s has no time: only an attempt that is postponed has one", d.Action)
	case postpones && !d.NotBefore.After(now):
		return errors.New("the time to which attempts are postponed must be in the future")
	case postpones && d.NotBefore.Sub(now) > MaxPostponement:
		return fmt.Errorf("attempts can be postponed by up to %d days", int(MaxPostponement/(24*time.Hour)))
	}
	return nil
}

// event returns the action of the events that record a decision.
func (d Decision) event() schemas.Action {
	if d.Action == Cancel {
		return schemas.Discarded
	}
	return schemas.Rescheduled
}

// Records stores small documents. A document is found as soon as it is saved.
type Records interface {
	eventstore.RecordStore
	DeleteRecord(ctx context.Context, kind, id, version string) (deleted bool, err error)
}

const (
	recordKind = "waiting"
	indexID    = "decisions" // of the record that lists the others

	// keptFor is how long a decision is kept for messages that stay in the queue of due
	// messages.
	keptFor = 30 * 24 * time.Hour

	maxKeys = 5000 // of one record
)

// recorded is a decision about some waits. It never changes.
type recorded struct {
	Decision
	ID   string    `json:"id"`
	Time time.Time `json:"time"`
	Keys []string  `json:"keys"`
}

func (r recorded) eventID(key string) string {
	return wire.DerivedID(string(r.event()), r.ID+":"+key)
}

// index lists the recorded decisions, the newest first: a later one about the same wait
// replaces an earlier one.
type index struct {
	Decisions []indexed `json:"decisions"`
}

type indexed struct {
	ID   string    `json:"id"`
	Time time.Time `json:"time"`
}

// record saves a decision about some waits, so that it is found before any of the messages
// can be taken. It forgets decisions that are older than keptFor.
func record(ctx context.Context, store Records, d Decision, keys []string, now time.Time) (recorded, error) {
	r := recorded{d, rand.Text(), now, keys}
	if _, err := eventstore.SaveRecord(ctx, store, recordKind, r.ID, "", r); err != nil {
		return r, err
	}
	known, version, err := readIndex(ctx, store)
	if err != nil {
		return r, err
	}
	var old []indexed
	known.Decisions = slices.DeleteFunc(known.Decisions, func(i indexed) bool {
		expired := now.Sub(i.Time) > keptFor
		if expired {
			old = append(old, i)
		}
		return expired
	})
	known.Decisions = append([]indexed{{r.ID, now}}, known.Decisions...)
	if err := saveIndex(ctx, store, known, version); err != nil {
		return r, err
	}
	return r, forget(ctx, store, old)
}

func readIndex(ctx context.Context, store Records) (known index, version string, err error) {
	version, err = eventstore.ReadRecord(ctx, store, recordKind, indexID, &known)
	return known, version, err
}

// saveIndex fails if another process has changed the index, which its lock prevents.
func saveIndex(ctx context.Context, store Records, known index, version string) error {
	saved, err := eventstore.SaveRecord(ctx, store, recordKind, indexID, version, known)
	if err == nil && saved == "" {
		err = errors.New("another process decides about waiting messages now: try again")
	}
	return err
}

func forget(ctx context.Context, store Records, old []indexed) error {
	for _, i := range old {
		document, version, err := store.Record(ctx, recordKind, i.ID)
		if err == nil && document != nil {
			_, err = store.DeleteRecord(ctx, recordKind, i.ID, version)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Decisions finds recorded decisions, for the processes that return due messages.
type Decisions struct {
	open func(ctx context.Context) (Records, error)

	mu     sync.Mutex // guards loaded
	loaded map[string]loaded
}

// loaded is a recorded decision with its keys as a set.
type loaded struct {
	recorded
	keys map[string]bool
}

// NewDecisions returns the decisions in a store, which is opened when it is first needed.
func NewDecisions(open func(ctx context.Context) (Records, error)) *Decisions {
	return &Decisions{open: open, loaded: map[string]loaded{}}
}

// Find implements pipeline.FindDecision. It reads the index each time, since the newest
// decision counts, and keeps the decisions.
func (d *Decisions) Find(ctx context.Context, waiting schemas.State) (pipeline.OperatorDecision, bool, error) {
	store, err := d.open(ctx)
	if err != nil {
		return pipeline.OperatorDecision{}, false, err
	}
	known, _, err := readIndex(ctx, store)
	if err != nil {
		return pipeline.OperatorDecision{}, false, err
	}
	key := waitOf(waiting)
	for _, i := range known.Decisions {
		found, err := d.load(ctx, store, i.ID)
		if err != nil {
			return pipeline.OperatorDecision{}, false, err
		}
		if found.keys[key] {
			return pipeline.OperatorDecision{
				EventID: found.eventID(key), Cancel: found.Action == Cancel, NotBefore: found.NotBefore,
				Operator: found.Operator, Reason: found.Reason,
			}, true, nil
		}
	}
	return pipeline.OperatorDecision{}, false, nil
}

// maxLoaded bounds the decisions in memory, of up to maxKeys waits each.
const maxLoaded = 100

// load returns a decision. Messages that need the same one at a time may read it twice, rather than
// wait for each other's request.
func (d *Decisions) load(ctx context.Context, store Records, id string) (loaded, error) {
	d.mu.Lock()
	found, known := d.loaded[id]
	d.mu.Unlock()
	if known {
		return found, nil
	}
	found.keys = map[string]bool{}
	if _, err := eventstore.ReadRecord(ctx, store, recordKind, id, &found.recorded); err != nil {
		return loaded{}, fmt.Errorf("reading decision %s about waiting messages: %w", id, err)
	}
	for _, key := range found.Keys {
		found.keys[key] = true
	}
	found.Keys = nil
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, has := d.loaded[id]; !has && len(d.loaded) >= maxLoaded {
		clear(d.loaded)
	}
	d.loaded[id] = found
	return found, nil
}
