package eventfilter

import (
	"context"
	"slices"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/system"
)

// MaxUnknown is the number of unknown ids that a response lists.
const MaxUnknown = 1000

// SortedIDs returns ids in order, each once.
func SortedIDs(ids []string) []string {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Unknown returns the ids that name nothing which the caller may see, at most MaxUnknown of them.
func Unknown(ctx context.Context, sys *system.System, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return []string{}, nil
	}
	store, err := Visible(ctx, sys)
	if err != nil {
		return nil, err
	}
	unknown, err := history.UnknownIDs(ctx, store, SortedIDs(ids))
	return append([]string{}, unknown[:min(len(unknown), MaxUnknown)]...), err
}
