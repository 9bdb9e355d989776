package rabbit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// queueKinds are the queues of which the counts differ in RabbitMQ.
func queueKinds() map[string]amqp.Table {
	return map[string]amqp.Table{
		"classic": nil,
		"quorum":  {"x-queue-type": "quorum"},
		"single":  {"x-queue-type": "quorum", "x-single-active-consumer": true},
	}
}

func TestCertainQueueState(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		var answers atomic.Int32 // that are false
		conn := open(t, b.SilentQueues(t, func(string) bool { return answers.Add(-1) >= 0 }), nil)
		for kind, args := range queueKinds() {
			for _, messages := range []int{0, 3} {
				for consumers := range 2 {
					for _, silent := range []int32{0, 3} {
						t.Run(fmt.Sprintf("%s %d %d %d", kind, messages, consumers, silent), func(t *testing.T) {
							queue, ch := b.Queue(t, args), b.Channel(t)
							for n := range messages + consumers {
								if err := ch.Publish("", queue, false, false, amqp.Publishing{Body: []byte{byte(n)}}); err != nil {
									t.Fatal(err)
								}
							}
							rabbittest.Eventually(t, "the messages", func() bool { return b.Len(t, queue) == messages+consumers })
							if consumers > 0 { // and has one of the messages
								if err := ch.Qos(1, 0, false); err != nil {
									t.Fatal(err)
								}
								deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
								if err != nil {
									t.Fatal(err)
								}
								rabbittest.Receive(t, deliveries)
							}
							answers.Store(silent)
							state, found, err := conn.CertainQueueState(testContext(t), queue)
							if want := (QueueState{Messages: messages, Consumers: consumers}); err != nil || !found || state != want {
								t.Errorf("got %+v, %t: %v", state, found, err)
							}
							rabbittest.Eventually(t, "the messages to stay", func() bool { return b.Len(t, queue) == messages })
						})
					}
				}
			}
		}
	})
}

// While the leader of a quorum queue is silent, RabbitMQ answers that the queue is empty.
func TestSilentLeader(t *testing.T) {
	rabbittest.EachServer(t, func(t *testing.T, b rabbittest.Broker) {
		conn := open(t, b.URL, nil)
		queue := b.Queue(t, queueKinds()["single"])
		if err := b.Channel(t).Publish("", queue, false, false, amqp.Publishing{}); err != nil {
			t.Fatal(err)
		}
		rabbittest.Eventually(t, "the message", func() bool { return b.Len(t, queue) == 1 })
		resume := b.SilentLeader(t, queue)
		if state, found, err := conn.QueueState(testContext(t), queue); err != nil || !found || state != (QueueState{Uncertain: true}) {
			t.Errorf("the state is %+v, %t: %v", state, found, err)
		}
		var state QueueState
		var err error
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			state, _, err = conn.CertainQueueState(testContext(t), queue)
		}()
		resume()
		if <-asked; err != nil || state != (QueueState{Messages: 1}) {
			t.Errorf("the certain state is %+v: %v", state, err)
		}
	})
}

func TestQueueThatStaysSilent(t *testing.T) {
	b := rabbittest.Newest(t)
	ctx, cancel := context.WithCancelCause(testContext(t))
	enough, asked := errors.New("enough"), 0
	conn := open(t, b.SilentQueues(t, func(string) bool {
		if asked++; asked == 5 {
			cancel(enough)
		}
		return true
	}), nil)
	if state, found, err := conn.CertainQueueState(ctx, b.Queue(t, nil)); !errors.Is(err, enough) {
		t.Errorf("got %+v, %t: %v", state, found, err)
	}
}

// RabbitMQ answers with the code of a missing queue for a classic queue that is away with its node.
func TestIsMissing(t *testing.T) {
	for text, want := range map[string]bool{
		"NOT_FOUND - no queue 'q' in vhost '/'":                                                      true,
		"NOT_FOUND - no queue 'home node ' in vhost '/'":                                             true,
		"NOT_FOUND - no exchange 'x' in vhost '/'":                                                   true,
		"NOT_FOUND - home node 'rabbit@a' of durable queue 'q' in vhost '/' is down or inaccessible": false,
		"NOT_FOUND - queue 'q' in vhost '/' has crashed and failed to restart":                       false,
		"NOT_FOUND - failed to perform operation on queue 'crashed' in vhost '/' due to timeout":     false,
	} {
		answer := &amqp.Error{Code: amqp.NotFound, Reason: text, Server: true}
		for _, err := range []error{answer, &RefusedError{Code: answer.Code, Reason: text}} {
			if got := IsMissing(fmt.Errorf("looking: %w", err)); got != want {
				t.Errorf("%T %s: %v", err, text, got)
			}
		}
	}
	if IsMissing(nil) || IsMissing(&amqp.Error{Code: amqp.PreconditionFailed, Server: true}) {
		t.Error("another answer")
	}
}
