package notice

import (
	"context"
	"fmt"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/backoff"
)

// recordKind is the kind of the records with a State, one for each source.
const recordKind = "alerts"

const (
	beatInterval  = 2 * time.Second // between two saves of the holder, at most
	watchInterval = time.Second     // between two looks of another process at the record
	leaseTimeout  = 8 * time.Second // without a save, after which another process takes over: beatInterval and twice saveTimeout
	saveTimeout   = 3 * time.Second

	toleratedFailures = 10 // of attempts, until they are logged: serve may still prepare the store
)

// Read returns the state of the alerts of a source; an empty one if no process has saved any.
func Read(ctx context.Context, store eventstore.RecordReader, source string) (*State, error) {
	state, _, err := read(ctx, store, source)
	return state, err
}

func read(ctx context.Context, store eventstore.RecordReader, source string) (*State, string, error) {
	state := newState(source)
	version, err := eventstore.ReadRecord(ctx, store, recordKind, source, state)
	if err != nil {
		return nil, "", fmt.Errorf("reading the alerts of %s: %w", source, err)
	}
	return state, version, nil
}

// claim waits until no process holds the lease, and takes it. It returns false if ctx ends.
//
// The version of the record changes with each save of the holder. A process that sees no
// other version for leaseTimeout, by its own clock, takes over: it saves the record with its
// own name, after which the former holder can save no more, and sends nothing before a save.
func (n *Notifier) claim(ctx context.Context) (*State, string, bool) {
	seen, since := "", time.Now()
	for failures := 0; ; {
		state, version, err := n.tryClaim(ctx, func(state *State, version string) bool {
			if version != seen {
				seen, since = version, time.Now()
			}
			return state.Holder == "" || time.Since(since) >= leaseTimeout
		})
		if err != nil {
			since = time.Now() // the holder may not be able to save either
			if failures++; failures == toleratedFailures && ctx.Err() == nil {
				n.Logger.Warn("alerts wait for the store", "error", err)
			}
		} else if version != "" {
			return state, version, true
		}
		if backoff.Sleep(ctx, watchInterval) != nil {
			return nil, "", false
		}
	}
}

// tryClaim returns the version "" if the lease is not free.
func (n *Notifier) tryClaim(ctx context.Context, isFree func(*State, string) bool) (*State, string, error) {
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	state, version, err := read(ctx, n.Store, n.Source)
	if err != nil || !isFree(state, version) {
		return nil, "", err
	}
	state.Holder = n.Process
	version, err = n.save(ctx, state, version)
	return state, version, err
}

// save returns the version "" if another process has saved the record.
func (n *Notifier) save(ctx context.Context, state *State, version string) (string, error) {
	state.Saved = time.Now().UTC()
	return eventstore.SaveRecord(ctx, n.Store, recordKind, n.Source, version, state)
}
