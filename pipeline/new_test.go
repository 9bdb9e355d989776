package pipeline

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/watershipmq/watership/rabbitmq"
)

// New connects to nothing, so that a program can make all its parts before it runs one. Run connects, and returns nil
// when its context ends, also while there is no broker.
func TestRunConnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dialled atomic.Int64
		p, err := New(Config{Connection: rabbitmq.Connection{URL: "amqp://localhost", Dial: func(string, string) (net.Conn, error) {
			dialled.Add(1)
			return nil, errors.New("there is no broker")
		}}})
		if err != nil {
			t.Fatal(err)
		}
		if synctest.Wait(); dialled.Load() != 0 || p.Err() == nil {
			t.Errorf("New has dialled %d times, and Err is %v", dialled.Load(), p.Err())
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.Run(ctx) }()
		if synctest.Wait(); dialled.Load() < 5 {
			t.Errorf("Run has dialled %d of five connections", dialled.Load())
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
