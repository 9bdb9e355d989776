package systemtest_test

import (
	"testing"

	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

// Stores are complete, and what one has recorded is in no other.
func TestEachStoreIsItsOwn(t *testing.T) {
	first, _ := systemtest.Embedded(t)
	second, _ := systemtest.Embedded(t)
	systemtest.Record(t, first, schemas.Event{Action: schemas.Published})
	if a, b := systemtest.Events(t, first, "*"), systemtest.Events(t, second, "*"); len(a) != 1 || len(b) != 0 {
		t.Errorf("%d and %d events", len(a), len(b))
	}
	if err := systemtest.Store(t).Check(t.Context()); err != nil {
		t.Error(err)
	}
}
