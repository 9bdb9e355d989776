package broker_test

import (
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
)

// inBubble runs a test with a broker and a client whose hours pass at once.
func inBubble(t *testing.T, test func(t *testing.T, ch *amqp.Channel)) {
	t.Helper()
	inBubbleWith(t, func(t *testing.T, _ *broker.Broker, ch *amqp.Channel) { test(t, ch) })
}

func inBubbleWith(t *testing.T, test func(t *testing.T, b *broker.Broker, ch *amqp.Channel)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := broker.New(broker.Config{})
		conn, err := dial(b, amqp.Config{Heartbeat: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		test(t, b, channel(t, conn))
		if err := conn.Close(); err != nil {
			t.Errorf("close connection: %v", err)
		}
		b.Close()
	})
}

func TestDelayIsExact(t *testing.T) {
	inBubble(t, func(t *testing.T, ch *amqp.Channel) {
		declare(t, ch, "due", nil)
		declare(t, ch, "delay", amqp.Table{
			"x-message-ttl": int64(time.Hour / time.Millisecond), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "due",
		})
		deliveries, err := ch.Consume("due", "", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		for range 3 {
			publish(t, ch, "delay", amqp.Publishing{})
			time.Sleep(time.Minute)
		}
		for i := range 3 {
			<-deliveries
			due := time.Hour + time.Duration(i)*time.Minute
			if late := time.Since(begin) - due; late < 0 || late >= time.Millisecond {
				t.Errorf("message %d came %v after its time", i, late)
			}
		}
	})
}

func TestExpiryWaitsForTheHead(t *testing.T) {
	inBubble(t, func(t *testing.T, ch *amqp.Channel) {
		declare(t, ch, "q", nil)
		publish(t, ch, "q", amqp.Publishing{Expiration: "7200000"})
		publish(t, ch, "q", amqp.Publishing{Expiration: "1000"})
		time.Sleep(time.Hour)
		if n := length(t, ch, "q"); n != 2 {
			t.Errorf("%d messages after an hour, want 2", n)
		}
		time.Sleep(time.Hour + time.Second)
		if n := length(t, ch, "q"); n != 0 {
			t.Errorf("%d messages after two hours, want none", n)
		}
	})
}

func TestQueueExpires(t *testing.T) {
	inBubble(t, func(t *testing.T, ch *amqp.Channel) {
		args := amqp.Table{"x-expires": int32(60_000)}
		declare(t, ch, "q", args)
		for range 5 {
			time.Sleep(50 * time.Second)
			declare(t, ch, "q", args) // which is use
		}
		if err := ch.Qos(1, 0, false); err != nil {
			t.Fatal(err)
		}
		if _, err := ch.Consume("q", "tag", false, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second expires in the queue, which the clock looks at then
			publish(t, ch, "q", amqp.Publishing{Expiration: "90000"})
		}
		time.Sleep(time.Hour)
		if err := ch.Cancel("tag", false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * time.Second)
		length(t, ch, "q")
		publish(t, ch, "q", amqp.Publishing{}) // which is none
		time.Sleep(61 * time.Second)
		if _, err := ch.QueueDeclarePassive("q", true, false, false, false, nil); err == nil {
			t.Error("the queue is still there")
		}
	})
}

func TestAtLeastOnceWaitsForItsTarget(t *testing.T) {
	inBubble(t, func(t *testing.T, ch *amqp.Channel) {
		declare(t, ch, "q", amqp.Table{
			"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late", "x-message-ttl": int32(1000),
		})
		for range 3 {
			publish(t, ch, "q", amqp.Publishing{})
		}
		time.Sleep(time.Hour)
		declare(t, ch, "late", amqp.Table{"x-max-length": int32(2), "x-overflow": "reject-publish"})
		time.Sleep(2 * time.Second)
		if n := length(t, ch, "late"); n != 2 {
			t.Errorf("%d messages, want the 2 that there is room for", n)
		}
		if _, _, err := ch.Get("late", true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if n := length(t, ch, "late"); n != 2 {
			t.Errorf("%d messages after one was taken, want 2", n)
		}
	})
}

// An idle connection lives by the heartbeats of both sides.
func TestHeartbeatsKeepAnIdleConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, ch *amqp.Channel) {
		closed := ch.NotifyClose(make(chan *amqp.Error, 1))
		time.Sleep(24*time.Hour + time.Second) // not at the very moment of a heartbeat
		select {
		case err := <-closed:
			t.Errorf("closed: %v", err)
		default:
		}
		declare(t, ch, "q", nil)
	})
}

func TestHandshakeTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := broker.New(broker.Config{})
		stream, err := b.Dial("", "")
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		go func() { // a byte every 8 s is no handshake either
			for err := error(nil); err == nil; time.Sleep(8 * time.Second) {
				_, err = stream.Write([]byte("A"))
			}
		}()
		if _, err := stream.Read(make([]byte, 1)); err == nil {
			t.Error("the broker said something")
		}
		if took := time.Since(begin); took != 10*time.Second {
			t.Errorf("took %v", took)
		}
		time.Sleep(time.Minute)
		b.Close()
	})
}
