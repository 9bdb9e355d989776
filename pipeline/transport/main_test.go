package transport

import (
	"fmt"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// queueConfig: topic, queue and routing key are the same.
func queueConfig(b rabbittest.Broker) wamqp.Config {
	cfg := wamqp.NewDurableQueueConfig(b.URL)
	cfg.Marshaler = nil // ours
	cfg.Publish.Mandatory = true
	cfg.Connection.Reconnect = &wamqp.ReconnectConfig{
		BackoffInitialInterval: 10 * time.Millisecond, BackoffMaxInterval: 200 * time.Millisecond,
	}
	return cfg
}

func newTestSubscriber(t testing.TB, cfg wamqp.Config, opts ...Option) *Subscriber {
	t.Helper()
	s, err := NewSubscriber(cfg, nil, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newTestPublisher(t testing.TB, cfg wamqp.Config, opts ...Option) *Publisher {
	t.Helper()
	p, err := NewPublisher(cfg, nil, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func connection(t testing.TB, b rabbittest.Broker) *Connection {
	t.Helper()
	conn, err := NewConnection(wamqp.ConnectionConfig{AmqpURI: b.URL}, nil, ConnectionName(t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func subscribe(t testing.TB, s message.Subscriber, topic string) <-chan *message.Message {
	t.Helper()
	messages, err := s.Subscribe(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

// numbered are new messages whose payload is their number.
func numbered(n int) []*message.Message {
	all := make([]*message.Message, n)
	for i := range all {
		all[i] = message.NewMessage(watermill.NewUUID(), []byte(fmt.Sprint(i)))
	}
	return all
}

func publish(t testing.TB, p message.Publisher, topic string, messages ...*message.Message) {
	t.Helper()
	if err := p.Publish(topic, messages...); err != nil {
		t.Fatal(err)
	}
}

type nopLogger = watermill.NopLogger
