package amqp

import (
	"context"
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// budget bounds the bytes of the messages that are in flight. One message is let
// through however large it is.
type budget struct {
	limit int // 0: none

	mu    sync.Mutex // guards what follows
	used  int
	freed chan struct{} // closed and replaced by free
}

func newBudget(limit int) *budget { return &budget{limit: limit, freed: make(chan struct{})} }

// take waits for room; false when ctx ends or stop is closed before.
func (b *budget) take(ctx context.Context, stop <-chan struct{}, size int) bool {
	for {
		ok, freed := b.try(size)
		if ok {
			return true
		}
		select {
		case <-freed:
		case <-stop:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// try takes room if there is any; else it returns a channel that closes when there may be.
func (b *budget) try(size int) (ok bool, freed <-chan struct{}) {
	if b.limit == 0 {
		return true, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used > 0 && b.used+size > b.limit {
		return false, b.freed
	}
	b.used += size
	return true, nil
}

func (b *budget) free(size int) {
	if b.limit == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= size
	close(b.freed)
	b.freed = make(chan struct{})
}

// headerCost is how many bytes a byte of headers takes, of which a table in memory is made.
const headerCost = 8

// sizeOf is about what a delivery takes in memory.
func (b *budget) sizeOf(d *amqp091.Delivery) int {
	if b.limit == 0 {
		return 0
	}
	return len(d.Body) + headerCost*schemas.HeaderFrameSize(schemas.FromDelivery(*d).Publishing())
}
