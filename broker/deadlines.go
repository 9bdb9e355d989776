package broker

import (
	"container/heap"
	"time"
)

// deadlines is a priority queue of the queues with a deadline, the earliest first.
type deadlines struct{ heap deadlineHeap }

// set adds, moves or, with a zero time, removes a queue. It reports whether this queue
// now has the earliest deadline.
func (d *deadlines) set(q *queue, at time.Time) bool {
	switch {
	case at.Equal(q.deadline):
		return false
	case at.IsZero():
		heap.Remove(&d.heap, q.heapIndex)
		q.deadline = at
		return false
	case q.deadline.IsZero():
		q.deadline = at
		heap.Push(&d.heap, q)
	default:
		q.deadline = at
		heap.Fix(&d.heap, q.heapIndex)
	}
	return d.heap[0] == q
}

// first returns the queue with the earliest deadline; nil for none.
func (d *deadlines) first() (*queue, time.Time) {
	if len(d.heap) == 0 {
		return nil, time.Time{}
	}
	return d.heap[0], d.heap[0].deadline
}

type deadlineHeap []*queue

func (h deadlineHeap) Len() int           { return len(h) }
func (h deadlineHeap) Less(i, j int) bool { return h[i].deadline.Before(h[j].deadline) }

func (h deadlineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}

func (h *deadlineHeap) Push(x any) {
	q := x.(*queue)
	q.heapIndex = len(*h)
	*h = append(*h, q)
}

func (h *deadlineHeap) Pop() any {
	old := *h
	q := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return q
}
