// Package eventstore has the types that the parts of Watership share with the stores of
// its events: selections and the cursors in them, the results and errors of requests,
// summaries and aggregations of events. Packages elastic and sqlite are the stores:
//
//	query, err := eventstore.ParseQuery("action: poisoned and queue: orders", time.Now())
//	if err != nil {
//		return err
//	}
//	for event, err := range store.Events(ctx, eventstore.Selection{Query: query, Limit: 10}) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(event.Time, event.Failure.Message)
//	}
//
// Package storetest is the suite for another store. There is no interface of a whole
// store: indexer and replayer each define the methods that they need.
package eventstore

import (
	"fmt"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// MaxSequence is the highest event.sequence that stores and indexers accept: the
// year 2255. Above it, many JSON parsers lose precision.
const MaxSequence = 1 << 53

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

// DocumentID identifies a document in the store.
type DocumentID struct {
	Index string
	ID    string
}

// Replacement is a document that a store writes in place of a quarantined one.
type Replacement struct {
	Quarantined string           // the id of the quarantined document
	Document    schemas.Document // its id may be another
}

// ErrorKind classifies the errors of a whole request.
type ErrorKind int

// The errors of a whole request.
const (
	Unavailable     ErrorKind = iota + 1 // no answer, or 5xx: wait and send again
	Overloaded                           // 429: send again after RetryAfter, less at once
	Unauthorized                         // 401, 403, 404: an operator has to act; wait
	RequestTooLarge                      // 413, or a 429 that will not pass: send less at once
	BadRequest                           // 400: some document spoils the request; split it
)

// Error is the failure of a whole request. The results of its documents are
// unknown.
type Error struct {
	Kind       ErrorKind
	RetryAfter time.Duration // 0 if the store named none
	Reason     string        // the operation, and the error text of the store
	Err        error         // may be nil
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.Reason, e.Err)
	}
	return e.Reason
}

func (e *Error) Unwrap() error { return e.Err }
