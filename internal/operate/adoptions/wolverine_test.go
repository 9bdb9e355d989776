package adoptions

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func died(queue, reason string, count int64) []any {
	return []any{amqp.Table{
		"queue": queue, "reason": reason, "exchange": "shop", "routing-keys": []any{"order.created"}, "count": count,
		"time": time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC),
	}}
}

func TestWolverinesQueueIsItsDestination(t *testing.T) {
	f := readAs(t, "wolverine", "dead", amqp.Table{wolverineType: "System.Exception", wolverineDestination: "rabbitmq://queue/orders"})
	if f.Queue != "orders" || f.Message.Exchange != "" || f.Message.RoutingKey != "orders" || f.Error != "System.Exception" {
		t.Errorf("%+v", f)
	}
}

func TestTheBrokerKnowsWolverinesOriginBetter(t *testing.T) {
	f := readAs(t, "wolverine", "dead", amqp.Table{wolverineType: "System.Exception", wolverineDestination: "rabbitmq://queue/other", "x-death": died("orders", "rejected", 1)})
	if f.Queue != "orders" || f.Message.Exchange != "shop" || f.Message.RoutingKey != "order.created" || f.ErrorType != "System.Exception" {
		t.Errorf("%+v", f)
	}
}

func TestAttemptsOfADeadLetterOfWolverine(t *testing.T) {
	for _, test := range []struct {
		deaths   int64
		attempts int32
		want     int
	}{{1, 5, 5}, {3, 2, 3}} {
		f := readAs(t, "wolverine", "dead", amqp.Table{"x-death": died("orders", "rejected", test.deaths), wolverineAttempts: test.attempts})
		if f.Attempts != test.want || f.Message.Headers[wolverineAttempts] != nil {
			t.Errorf("%d deaths and %d attempts: %d, %v", test.deaths, test.attempts, f.Attempts, f.Message.Headers)
		}
	}
}

func TestATaskOfCeleryWasTriedOnceMoreThanRetried(t *testing.T) {
	for _, test := range []struct {
		retries any
		want    int
	}{{nil, 1}, {int32(0), 1}, {int64(4), 5}} {
		if f := readAs(t, "celery", "dead", amqp.Table{"x-death": died("orders", "rejected", 9), "task": "shop.ship", "retries": test.retries}); f.Attempts != test.want {
			t.Errorf("%v retries: %d attempts, want %d", test.retries, f.Attempts, test.want)
		}
	}
}

func TestATaskOfCeleryHasTheReasonOfItsDeath(t *testing.T) {
	f := readAs(t, "celery", "dead", amqp.Table{"x-death": died("orders", "expired", 1), "task": "shop.ship"})
	if f.Error != "task shop.ship: expired" || f.ErrorType != "shop.ship" || f.Message.Headers["task"] != "shop.ship" {
		t.Errorf("%+v", f)
	}
}

func TestADeadLetterHasItsReasonAndTime(t *testing.T) {
	f := readAs(t, "dead-letter", "dead", amqp.Table{"x-death": died("orders", "maxlen", 2)})
	if f.ErrorType != "maxlen" || f.Error != `dead-lettered from queue "orders": maxlen` || f.FailedAt.Hour() != 10 || f.Attempts != 2 {
		t.Errorf("%+v", f)
	}
}

func TestAttemptsOfDeadLettersArePlausible(t *testing.T) {
	for count, want := range map[int64]int{-1: 0, 0: 0, 1: 1, maxAttempts: 0, 1 << 62: 0} {
		if f := readAs(t, "dead-letter", "dead", amqp.Table{"x-death": died("orders", "rejected", count)}); f.Attempts != want {
			t.Errorf("count %d: %d attempts, want %d", count, f.Attempts, want)
		}
	}
}

func TestWatermillsQueueIsItsTopic(t *testing.T) {
	f := readAs(t, "watermill", "poison", amqp.Table{watermillReason: "boom", watermillTopic: "orders", watermillHandler: "ship", "custom_poisoned": "x", "tenant": "acme"})
	if f.Queue != "orders" || f.ErrorType != "ship" || len(f.Message.Headers) != 1 || f.Message.Headers["tenant"] != "acme" {
		t.Errorf("%+v", f)
	}
}
