package schemas

import (
	"fmt"
	"time"

	"github.com/watershipmq/watership/schemas/query"
)

// Status is the result of indexing one document.
type Status int

// The results for a document. Each document that was sent has exactly one.
const (
	Created  Status = iota + 1 // stored durably
	Conflict                   // a document with this id already exists
	Refused                    // the store will never accept the document unchanged
	Busy                       // temporarily refused; send it again later
	TooLarge                   // too large for one request; send less, or less of the document
)

// Result is a store's answer for one document.
type Result struct {
	Status Status
	Index  string // of the existing document, for Conflict
	Reason string // in the store's words, for Refused, Busy and TooLarge
}

// Stored identifies a document in the store.
type Stored struct {
	Index string
	ID    string
}

// StoreErrorKind classifies the errors of a whole request.
type StoreErrorKind int

// The errors of a whole request.
const (
	StoreAway     StoreErrorKind = iota + 1 // no answer, or 5xx: wait and send again
	StoreBusy                               // 429: send again after RetryAfter, less at once
	StoreDenied                             // 401, 403, 404: an operator has to act; wait
	StoreTooLarge                           // 413, or a 429 that will not pass: send less at once
	StoreRefused                            // 400: some document spoils the request; split it
)

// StoreError is the failure of a whole request. The results of its documents are
// unknown.
type StoreError struct {
	Kind       StoreErrorKind
	RetryAfter time.Duration // 0 if the store named none
	Reason     string        // the operation, and the error text of the store
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

// The orders: newest first by time, or in the order in which the indexer received
// the events.
const (
	NewestFirst Order = iota
	BySequence
)

// Selection selects events, and the way to read them. The zero value reads all
// events with all fields, newest first.
type Selection struct {
	Query       query.Node // nil matches every event
	Order       Order
	Limit       int    // 0: no limit
	After       Cursor // BySequence only: continue after this place
	UpTo        int64  // highest sequence; 0: no limit
	WithoutBody bool   // omits the body, to read many events fast
}

// Cursor is a place in the order BySequence. It is valid longer than a point in
// time of Elasticsearch. The zero value is before every event.
type Cursor struct {
	Sequence int64  `json:"sequence"`
	EventID  string `json:"event_id"`
}
