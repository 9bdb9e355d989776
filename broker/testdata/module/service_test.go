package service_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/broker/brokertest"
)

// send publishes an order, again for as long as the broker refuses it.
func send(url, order string) error {
	conn, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if _, err := ch.QueueDeclare("orders", true, false, false, false, nil); err != nil {
		return err
	}
	if err := ch.Confirm(false); err != nil {
		return err
	}
	for range 3 {
		confirm, err := ch.PublishWithDeferredConfirm("", "orders", true, false, amqp.Publishing{Body: []byte(order)})
		if err != nil {
			return err
		}
		if confirm.Wait() {
			return nil
		}
	}
	return errors.New("the broker refuses the order")
}

func TestOrdersAreSentAgain(t *testing.T) {
	b := broker.Start(t, broker.Config{})
	b.Inject(broker.Fault{Times: 2, Do: broker.Nack()})
	if err := send(b.URL(), "tea"); err != nil {
		t.Error(err)
	}
	if n := b.QueueLengths("/")["orders"]; n != 1 {
		t.Errorf("%d orders, want 1", n)
	}
}

func TestOrdersExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // an hour passes at once
		b := broker.New(broker.Config{})
		defer b.Close()
		conn, err := amqp.DialConfig(b.URL(), amqp.Config{Dial: b.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		ttl := amqp.Table{"x-message-ttl": time.Hour.Milliseconds()}
		if _, err := ch.QueueDeclare("orders", true, false, false, false, ttl); err != nil {
			t.Fatal(err)
		}
		if err := ch.Publish("", "orders", false, false, amqp.Publishing{}); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			time.Sleep(59 * time.Minute)
			if n := b.QueueLengths("/")["orders"]; n != 1-i {
				t.Errorf("%d orders after %d minutes", n, 59*(i+1))
			}
		}
	})
}

func TestBroker(t *testing.T) {
	brokertest.Run(t, brokertest.Target{URL: broker.Start(t, broker.Config{}).URL()})
}
