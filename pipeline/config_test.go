package pipeline

import (
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/rabbitmq"
)

// A copy that is parked in our own poison queue would be given up for ever.
func TestParkingQueueIsNotWatershipsOwn(t *testing.T) {
	_, err := New(Config{
		Connection: rabbitmq.Connection{URL: "amqp://localhost/"},
		Routes:     []Route{{Queue: "watership", Park: true, Handler: handler(func(*message.Message) error { return nil })}},
	})
	if err == nil || !strings.Contains(err.Error(), `queue "watership.poison" belongs to Watership`) {
		t.Error(err)
	}
}

func TestMiddlewareIsAFunction(t *testing.T) {
	_, err := New(Config{Connection: rabbitmq.Connection{URL: "amqp://127.0.0.1:1/"}, Middleware: []message.HandlerMiddleware{nil}})
	if err == nil || !strings.Contains(err.Error(), "middleware 1 of 1 is nil") {
		t.Error(err)
	}
}
