package transfer

import (
	"context"

	"github.com/watershipmq/watership/eventstore"
)

// ExportSelection returns the selection of an export: in the order of their sequences, and
// without events that are stored after the call.
func ExportSelection(ctx context.Context, store interface {
	HighestSequence(ctx context.Context) (int64, error)
}, selection eventstore.Selection,
) (eventstore.Selection, error) {
	selection.Order = eventstore.BySequence
	var err error
	selection.UpTo, err = store.HighestSequence(ctx)
	return selection, err
}
