// Package storetest is the conformance suite of stores of events.
package storetest

import (
	"context"
	"iter"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// Store is the part of a store that every user needs. See the methods of *elastic.Store.
type Store interface {
	Create(context.Context, []schemas.Document) ([]eventstore.Result, error)
	Sequences(context.Context, []eventstore.DocumentID) (map[eventstore.DocumentID]int64, error)
	Find(context.Context, []string) (map[string]eventstore.DocumentID, error)
	HighestSequence(context.Context) (int64, error)
	HighestSequenceOf(context.Context, string) (int64, error)
	Refresh(context.Context) error
	Count(context.Context, eventstore.Selection) (int64, error)
	Events(context.Context, eventstore.Selection) iter.Seq2[schemas.Event, error]
}

// Run runs the suite. open returns an empty store with KeepRules that is ready for documents, and is
// cleaned up with the test. Run calls it twice only, since a store can be expensive: the
// tests share one, and each uses its own name as the source of its documents.
func Run(t *testing.T, open func(t *testing.T) Store) {
	t.Run("an empty store", func(t *testing.T) { testEmpty(t, open(t)) })
	store := open(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, subject)
	}{
		{"a document is created once", testCreatedOnce},
		{"an id twice in a batch", testDuplicateInBatch},
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
		{"slowest first", testSlowestFirst},
		{"by sequence", testBySequence},
		{"a cursor", testCursor},
		{"a cursor of the newest first", testCursorNewestFirst},
		{"a bound", testUpTo},
		{"many pages and a stable view", testPages},
		{"breaking off", testEarlyBreak},
		{"without bodies", testWithoutBody},
		{"nothing is lost of an event", testLossless},
		{"documents of version 1", testFormer},
		{"periods of rules", testPeriods},
		{"a document that is no event", testInvalidDocument},
		{"a context that is done", testContextDone},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, subject{store, t.Name()}) })
	}
}

// subject is the store, and the source of a test's documents.
type subject struct {
	Store
	source string
}
