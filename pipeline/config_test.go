package pipeline

import (
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
)

// A copy that is parked in our own poison queue would be given up for ever.
func TestParkingQueueIsNotWatershipsOwn(t *testing.T) {
	_, err := New(Config{
		URL:    "amqp://localhost/",
		Routes: []Route{{Queue: "watership", Park: true, Handler: handler(func(*message.Message) error { return nil })}},
	})
	if err == nil || !strings.Contains(err.Error(), `queue "watership.poison" belongs to Watership`) {
		t.Error(err)
	}
}
