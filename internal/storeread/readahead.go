package storeread

import (
	"context"
	"iter"
	"sync"
)

// Sequence computes the next element of a sequence while the consumer handles the
// current one. It cancels the context of the sequence when the consumer stops.
func Sequence[T any](ctx context.Context, sequence func(context.Context) iter.Seq2[T, error]) iter.Seq2[T, error] {
	type step struct {
		value T
		err   error
	}
	return func(yield func(T, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		steps := make(chan step, 1)
		var work sync.WaitGroup
		defer work.Wait()
		defer cancel()
		work.Go(func() {
			defer close(steps)
			for value, err := range sequence(ctx) {
				select {
				case steps <- step{value, err}:
				case <-ctx.Done():
					return
				}
			}
		})
		for s := range steps {
			if !yield(s.value, s.err) {
				return
			}
		}
	}
}
