// Package storetest is the suite that every store of events must pass.
package storetest

import (
	"context"
	"iter"
	"testing"

	"github.com/watershipmq/watership/schemas"
)

// Store is what Watership asks of a store. The methods of *elastic.Store say
// what each promises.
type Store interface {
	Create(context.Context, []schemas.Document) ([]schemas.Result, error)
	Sequences(context.Context, []schemas.Stored) (map[schemas.Stored]int64, error)
	Find(context.Context, []string) (map[string]schemas.Stored, error)
	HighestSequence(context.Context) (int64, error)
	HighestSequenceOf(context.Context, string) (int64, error)
	Refresh(context.Context) error
	Count(context.Context, schemas.Selection) (int64, error)
	Events(context.Context, schemas.Selection) iter.Seq2[schemas.Event, error]
}

// Run runs the suite. open makes an empty store that is ready for documents and
// is cleaned up with the test. It is called twice: a store may be dear, so the
// tests share one and keep to documents with their own name as source.
func Run(t *testing.T, open func(t *testing.T) Store) {
	t.Run("an empty store", func(t *testing.T) { testEmpty(t, open(t)) })
	store := open(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, subject)
	}{
		{"a document is created once", testCreatedOnce},
		{"an id twice in a batch", testTwiceInABatch},
		{"a batch of all sorts", testMixedBatch},
		{"an empty batch", testEmptyBatch},
		{"odd ids", testOddIDs},
		{"line breaks in a document", testLineBreaks},
		{"creating at once", testConcurrent},
		{"sequences of what is not there", testSequencesMissing},
		{"find", testFind},
		{"the highest sequence", testHighestSequence},
		{"queries", testQueries},
		{"thousands of values", testManyValues},
		{"newest first", testNewestFirst},
		{"by sequence", testBySequence},
		{"a cursor", testCursor},
		{"a bound", testBound},
		{"many pages and a stable view", testPages},
		{"breaking off", testBreakingOff},
		{"without bodies", testWithoutBody},
		{"nothing is lost of an event", testLossless},
		{"a document that is no event", testUnreadable},
		{"a context that is done", testDone},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, subject{store, t.Name()}) })
	}
}

// subject is the store, and the source that a test's documents have.
type subject struct {
	Store
	source string
}
