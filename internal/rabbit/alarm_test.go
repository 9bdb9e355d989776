package rabbit

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// TestMemoryAlarm raises the memory alarm of a real broker, which blocks
// publishers. The connection logs that once, Publish ends with its context, and
// after the alarm every message that was not given up arrives exactly once.
func TestMemoryAlarm(t *testing.T) {
	rabbittest.NeedFaults(t)
	rabbittest.EachServer(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		queue := b.Queue(t, nil)
		log := &rabbittest.Log{}
		c := open(t, b.URL, func(cfg *Config) { cfg.Logger = log.Logger() })
		p := publisher(t, c, 10)
		if err := p.Publish(testContext(t), to(queue, "0")); err != nil {
			t.Fatal(err)
		}
		lift := b.Alarm(t)
		// The broker sends connection.blocked at the first publish.
		results := make(chan error)
		for _, body := range []string{"1", "2", "3"} {
			go func() { results <- p.Publish(testContext(t), to(queue, body)) }()
		}
		rabbittest.Eventually(t, "the publisher knows", func() bool { return log.Count("takes no messages") == 1 })
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := p.Publish(ctx, to(queue, "given up")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("whoever stops waiting gets %v", err)
		}
		lift()
		for range 3 {
			if err := rabbittest.Receive(t, results); err != nil {
				t.Error(err)
			}
		}
		rabbittest.Eventually(t, "the end is told", func() bool { return log.Count("takes messages again") == 1 })
		if duplicates := wantAll(t, b, queue, 4); duplicates != 0 || b.Len(t, queue) != 0 {
			t.Errorf("%d twice, %d left", duplicates, b.Len(t, queue))
		}
		if log.Count("takes no messages") != 1 || log.Count("lost") != 0 {
			t.Errorf("said more than once:\n%s", log)
		}
	})
}
