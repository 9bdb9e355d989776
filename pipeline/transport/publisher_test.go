package transport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

func TestPublishToNowhere(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		cfg := queueConfig(b)
		var lost *UnroutableError
		if err := newTestPublisher(t, cfg).Publish("test.nowhere", numbered(3)...); !errors.As(err, &lost) || lost.RoutingKey != "test.nowhere" {
			t.Errorf("mandatory: %v", err)
		}
		cfg.Publish.Mandatory = false
		if err := newTestPublisher(t, cfg).Publish("test.nowhere", numbered(3)...); err != nil {
			t.Errorf("not mandatory: %v", err)
		}
	})
}

func TestMessagesOfOneCallKeepTheirOrderBeyondTheWindow(t *testing.T) {
	b := rabbittest.Newest(t)
	queue := b.Queue(t, nil)
	publish(t, newTestPublisher(t, queueConfig(b), Window(10)), queue, numbered(500)...)
	for i, d := range b.Take(t, queue, 500) {
		if string(d.Body) != fmt.Sprint(i) {
			t.Fatalf("message %d is %s", i, d.Body)
		}
	}
}

func TestOnlyTheRefusedMessageFails(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue := b.Queue(t, nil)
		all := numbered(20)
		foreign, _ := Marshaler{}.Unmarshal(amqp.Delivery{UserId: "somebody", MessageId: "foreign"})
		all[7] = foreign
		all[9].Metadata.Set(EnvelopeKey, "broken")
		err := newTestPublisher(t, queueConfig(b)).Publish(queue, all...)
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Code != amqp.PreconditionFailed {
			t.Errorf("got %v", err)
		}
		seen := map[string]bool{}
		for len(seen) < 18 { // the window is sent again, so some come twice
			seen[string(b.Take(t, queue, 1)[0].Body)] = true
		}
	})
}

func TestDeletedExchangeIsDeclaredAgain(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		topic, queue := rabbittest.Name(t), b.Queue(t, nil)
		b.DeleteExchange(t, topic)
		cfg := wamqp.NewDurablePubSubConfig(b.URL, nil)
		p := newTestPublisher(t, cfg)
		publish(t, p, topic, numbered(1)...)
		ch := b.Channel(t)
		if err := ch.ExchangeDelete(topic, false, false); err != nil {
			t.Fatal(err)
		}
		publish(t, p, topic, numbered(3)...)
		if err := ch.QueueBind(queue, "", topic, false, nil); err != nil {
			t.Fatal(err)
		}
		publish(t, p, topic, numbered(3)...)
		b.Take(t, queue, 3)
	})
}

func TestPublishEndsWithItsContextItsTimeoutOrClose(t *testing.T) {
	rabbittest.NoLeaks(t)
	cfg := wamqp.NewDurableQueueConfig("amqp://127.0.0.1:1/") // no server
	p := newTestPublisher(t, cfg, StopTimeout(50*time.Millisecond))
	msg := message.NewMessage("id", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	msg.SetContext(ctx)
	if err := p.Publish("q", msg); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("by its context: %v", err)
	}
	if err := newTestPublisher(t, cfg, PublishTimeout(20*time.Millisecond)).Publish("q", message.NewMessage("id", nil)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("by the time-out: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- p.Publish("q", message.NewMessage("id", nil)) }()
	// It counts the message, if Publish had come so far.
	if err := p.Close(); err != nil && !strings.Contains(err.Error(), "1 messages unconfirmed") {
		t.Error(err)
	}
	if err := rabbittest.Receive(t, done); err == nil {
		t.Error("published by a closed publisher")
	}
}

// TestPassingAMessageOnObeysNoCC: its publisher may reach fewer queues than we.
func TestPassingAMessageOnObeysNoCC(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		from, to, victim := b.Queue(t, nil), b.Queue(t, nil), b.Queue(t, nil)
		cfg := queueConfig(b)
		p := newTestPublisher(t, cfg)
		messages := subscribe(t, newTestSubscriber(t, cfg), from)
		headers := amqp.Table{"CC": []any{victim}, "kept": int64(1)}
		if err := b.Channel(t).Publish("", from, false, false, amqp.Publishing{Headers: headers}); err != nil {
			t.Fatal(err)
		}
		b.Take(t, victim, 1) // by the rights of its publisher
		msg := rabbittest.Receive(t, messages)
		publish(t, p, to, msg, msg.Copy())
		msg.Ack()
		for _, d := range b.Take(t, to, 2) {
			if d.Headers["kept"] != int64(1) {
				t.Errorf("headers %v", d.Headers)
			}
		}
		if n := b.Len(t, victim); n > 0 {
			t.Errorf("%d more reached the queue in CC", n)
		}
	})
}
