package transport

import (
	"testing"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// Subscribers, publishers and shared connections use a further node while the first is away.
func TestTheFirstNodeIsAway(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		address, nodes := b.SecondNode(t)
		cfg := queueConfig(b)
		cfg.Connection.AmqpURI = address
		queue := b.Queue(t, nil)
		conn, err := NewConnection(cfg.Connection, nil, Nodes(nodes...))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		shared, err := NewSubscriberWithConnection(cfg, nil, conn)
		if err != nil {
			t.Fatal(err)
		}
		defer shared.Close()
		for _, s := range []*Subscriber{newTestSubscriber(t, cfg, Nodes(nodes...)), shared} {
			messages := subscribe(t, s, queue)
			publish(t, newTestPublisher(t, cfg, Nodes(nodes...)), queue, numbered(1)...)
			rabbittest.Receive(t, messages).Ack()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
