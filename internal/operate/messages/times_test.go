package messages

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

// took makes an attempt at a queue with its times.
func took(action schemas.Action, queue string, inQueue, handler, total time.Duration) schemas.Event {
	e := schemas.Event{Action: action}
	e.Queue, e.Attempt, e.QueueTime, e.Duration, e.TotalTime = queue, 1, inQueue, handler, total
	return e
}

// timesOf returns the times of work of a System with some events.
func timesOf(t *testing.T, in TimesInput, events ...schemas.Event) Times {
	t.Helper()
	sys, _ := systemtest.Embedded(t)
	systemtest.Record(t, sys, events...)
	found, err := operations{System: sys}.listTimes(operator(t), &in)
	must(t, err)
	return found.Body
}

func TestPercentilesOfAQueue(t *testing.T) {
	var events []schemas.Event
	for n := range 20 {
		handler := time.Duration(n+1) * time.Second
		events = append(events, took(schemas.Handled, "orders", 100*time.Millisecond, handler, handler+time.Hour))
	}
	queue := timesOf(t, TimesInput{Limit: 10}, events...).Queues[0]
	if queue.Queue != "orders" || queue.Attempts != 20 || queue.Handler.Count != 20 || queue.InQueue.Count != 20 || queue.Total.Count != 20 {
		t.Errorf("%+v", queue)
	}
	for name, test := range map[string]struct{ got, want float64 }{
		"handler 50": {queue.Handler.P50, 10}, "handler 95": {queue.Handler.P95, 19}, "handler 99": {queue.Handler.P99, 20}, "handler 100": {queue.Handler.Max, 20},
		"in queue": {queue.InQueue.P99, 0.1}, "total": {queue.Total.Max, 3620},
	} {
		if math.Abs(test.got-test.want) > test.want/100 {
			t.Errorf("%s is %v, want %v", name, test.got, test.want)
		}
	}
}

// A failed attempt has no total time, and an event of an operator is no attempt.
func TestTimesThatAreNotKnown(t *testing.T) {
	found := timesOf(t, TimesInput{Limit: 10}, took(schemas.Poisoned, "mails", time.Minute, time.Millisecond, 0), took(schemas.Resumed, "mails", 0, time.Hour, 0))
	if len(found.Queues) != 1 || found.Queues[0].Attempts != 1 || found.Queues[0].Handler.Count != 1 || found.Queues[0].Total.Count != 0 {
		t.Errorf("%+v", found)
	}
}

// The queues with most attempts are listed, and those of the others are counted.
func TestQueuesBeyondALimit(t *testing.T) {
	var events []schemas.Event
	for n := range 3 {
		for range n + 1 {
			events = append(events, took(schemas.Handled, fmt.Sprint("queue-", n), 0, time.Second, time.Second))
		}
	}
	found := timesOf(t, TimesInput{Limit: 1}, events...)
	if len(found.Queues) != 1 || found.Queues[0].Queue != "queue-2" || found.Others != 3 {
		t.Errorf("%+v", found)
	}
}
