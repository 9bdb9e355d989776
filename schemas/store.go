package schemas

import (
	"fmt"
	"time"

	"github.com/watershipmq/watership/schemas/query"
)

// Status is what a store did with one document.
type Status int

// A document is in exactly one of these states after it was sent.
const (
	Created  Status = iota + 1 // durable
	Conflict                   // a document with this id was there before
	Refused                    // will never be accepted as it is
	Busy                       // not now; send it again later
	TooLarge                   // more than it takes at once; send less, or less of the document
)

// Result is a store's answer for one document.
type Result struct {
	Status Status
	Index  string // of the document that was there before, for Conflict
	Reason string // in the store's words, for Refused, Busy and TooLarge
}

// Stored names a document that is in the store.
type Stored struct {
	Index string
	ID    string
}

// StoreErrorKind says what to do about a request that failed as a whole.
type StoreErrorKind int

// The ways in which a whole request fails.
const (
	StoreAway     StoreErrorKind = iota + 1 // no answer, or 5xx: wait and send again
	StoreBusy                               // 429: send again after RetryAfter, less at once
	StoreDenied                             // 401, 403, 404: an operator has to act; wait
	StoreTooLarge                           // 413, or a 429 that will not pass: send less at once
	StoreRefused                            // 400: some document spoils the request; split it
)

// StoreError is a request that failed as a whole: what became of its documents
// is not known.
type StoreError struct {
	Kind       StoreErrorKind
	RetryAfter time.Duration // 0 where the store did not say
	Reason     string        // what was being done, and the store's words
	Err        error         // may be nil
}

func (e *StoreError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.Reason, e.Err)
	}
	return e.Reason
}

func (e *StoreError) Unwrap() error { return e.Err }

// Order is the order in which events are read.
type Order int

// Events are read newest first by time, or in the order in which they were taken.
const (
	NewestFirst Order = iota
	BySequence
)

// Selection says which events are read, and how. The zero value reads all of
// them whole, newest first.
type Selection struct {
	Query       query.Node // nil matches everything
	Order       Order
	Limit       int    // 0: no limit
	After       Cursor // BySequence only: read on behind it
	UpTo        int64  // highest sequence; 0: no bound
	WithoutBody bool   // leaves the body where it is, to read many events fast
}

// Cursor is a place in the order BySequence. It outlives any view of the store.
// The zero value is before everything.
type Cursor struct {
	Sequence int64  `json:"sequence"`
	EventID  string `json:"event_id"`
}
