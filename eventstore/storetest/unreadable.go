package storetest

import (
	"errors"
	"iter"

	"github.com/watershipmq/watership/schemas"
)

// AfterUnreadable yields the error of a document that cannot be read, as one of a newer version, and then events.
func AfterUnreadable(events iter.Seq2[schemas.Event, error]) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		if yield(schemas.Event{}, errors.New("reading document: it has a newer version")) {
			events(yield)
		}
	}
}
