package rabbit

import (
	"fmt"
	"os"
	"testing"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// TestBrokerRestart publishes and consumes during a broker restart: every message
// arrives, and the loss and the reconnect are logged once each.
func TestBrokerRestart(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_FAULTS") == "" {
		t.Skip("WATERSHIP_TEST_FAULTS is not set: this test restarts the brokers, which others may be using")
	}
	rabbittest.NeedServices(t)
	rabbittest.EachServer(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		queue := b.Queue(t, nil)
		log := &rabbittest.Log{}
		c := open(t, b.URL, func(cfg *Config) { cfg.Logger = log.Logger() })
		consumer := consume(t, c, ConsumeConfig{Queue: queue, Prefetch: 100})
		p := publisher(t, open(t, b.URL, nil), 100)
		restarted, sent := make(chan struct{}), make(chan int)
		go func() { sent <- sendUntil(t, p, queue, restarted) }()
		session := rabbittest.Receive(t, consumer.sessions)
		first := rabbittest.Receive(t, consumer.deliveries)
		seen := map[string]bool{string(first.Body): true}
		_ = session.Ack(first.DeliveryTag, false)

		go func() { // the consumer continues during the restart
			defer close(restarted)
			b.Service(t, "restart")
		}()
		total, received, sessions := 0, 1, 1
		for total == 0 || len(seen) < total || sessions < 2 { // a message sent again may be known from before the restart
			select {
			case total = <-sent:
			case session = <-consumer.sessions:
				sessions++
			case d := <-consumer.deliveries:
				received++
				seen[string(d.Body)] = true
				_ = session.Ack(d.DeliveryTag, false)
			}
		}
		if log.Count("connection to the broker lost") != 1 || log.Count("connected to") != 2 {
			t.Errorf("logged:\n%s", log)
		}
		t.Logf("%d received for %d sent", received, total)
	})
}

// sendUntil sends numbered messages, each confirmed, until done, and returns their
// number.
func sendUntil(t *testing.T, p *Publisher, queue string, done <-chan struct{}) int {
	for i := 0; ; i++ {
		select {
		case <-done:
			return i
		default:
		}
		if err := p.Publish(t.Context(), to(queue, fmt.Sprint(i))); err != nil {
			t.Error(err)
			return i
		}
	}
}
