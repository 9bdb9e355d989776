package transport

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/semaphore"

	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// budget bounds the bytes of the messages in flight. A message that is larger than the
// budget is in flight alone.
type budget struct {
	limit int // 0: none
	room  *semaphore.Weighted
}

func newBudget(limit int) *budget {
	return &budget{limit: limit, room: semaphore.NewWeighted(int64(limit))}
}

// headerCost is the memory in bytes for each encoded byte of a header table.
const headerCost = 8

// sizeOf estimates the memory of a delivery.
func (b *budget) sizeOf(d *amqp.Delivery) int {
	if b.limit == 0 {
		return 0
	}
	return len(d.Body) + headerCost*wire.HeaderFrameSize(schemas.FromDelivery(*d).Publishing())
}

func (b *budget) share(size int) int64 { return int64(min(size, b.limit)) }

// acquire waits for room; it returns false when ctx ends before.
func (b *budget) acquire(ctx context.Context, size int) bool {
	return b.room.Acquire(ctx, b.share(size)) == nil
}

// tryAcquire takes room if there is any.
func (b *budget) tryAcquire(size int) bool { return b.room.TryAcquire(b.share(size)) }

func (b *budget) release(size int) { b.room.Release(b.share(size)) }
