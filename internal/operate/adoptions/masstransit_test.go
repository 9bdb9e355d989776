package adoptions

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

func fault(more amqp.Table) amqp.Table {
	headers := amqp.Table{"MT-Reason": "fault", "MT-Fault-ExceptionType": "System.Exception", "MT-Fault-Message": "boom"}
	for name, value := range more {
		headers[name] = value
	}
	return headers
}

func TestQueuesOfAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"rabbitmq://localhost/shop/orders?durable=true": "orders",
		"rabbitmq://localhost/orders":                   "orders",
		"rabbitmq://queue/orders":                       "orders",
		"rabbitmq://localhost/a%20b":                    "a b",
		"rabbitmq://localhost/":                         "",
		"rabbitmq://localhost":                          "",
		"orders":                                        "",
		"":                                              "",
		"://":                                           "",
	} {
		if got := queueOfAddress(address); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}

func TestMassTransitsQueueIsThatOfTheAddress(t *testing.T) {
	f := readAs(t, "masstransit", "orders_error", fault(amqp.Table{"MT-Fault-InputAddress": "rabbitmq://localhost/bills"}))
	if f.Queue != "bills" || f.Message.Exchange != "" || f.Message.RoutingKey != "bills" {
		t.Errorf("%+v", f)
	}
}

func TestMassTransitsQueueIsInTheNameOfTheErrorQueue(t *testing.T) {
	for _, errorQueue := range []string{"orders_error", "orders_skipped"} {
		if f := readAs(t, "masstransit", errorQueue, fault(nil)); f.Queue != "orders" {
			t.Errorf("%s: %s", errorQueue, f.Queue)
		}
	}
}

func TestMassTransitCountsRetries(t *testing.T) {
	for _, test := range []struct {
		count any
		want  int
	}{{nil, 1}, {int32(4), 5}, {"4", 5}, {"many", 1}, {int64(-1), 1}} {
		if f := readAs(t, "masstransit", "orders_error", fault(amqp.Table{"MT-Fault-RetryCount": test.count})); f.Attempts != test.want {
			t.Errorf("%v retries: %d attempts, want %d", test.count, f.Attempts, test.want)
		}
	}
}

func TestHeadersOfMassTransitsFailureAreRemoved(t *testing.T) {
	f := readAs(t, "masstransit", "orders_error", fault(amqp.Table{
		"MT-Host-MachineName": "web1", "MT-Redelivery-Count": int32(3), "MT-Activity-Id": "kept", "tenant": "acme",
	}))
	if len(f.Message.Headers) != 2 || f.Message.Headers["tenant"] != "acme" || f.Message.Headers["MT-Activity-Id"] != "kept" {
		t.Errorf("%v", f.Message.Headers)
	}
}

func TestASkippedMessageOfMassTransitHadOneAttempt(t *testing.T) {
	f := readAs(t, "masstransit", "orders_skipped", amqp.Table{"MT-Reason": "dead-letter", "MT-Fault-RetryCount": int32(7)})
	if f.Attempts != 1 || f.ErrorType != "dead-letter" || f.Error != `no consumer of queue "orders" takes messages of this type` {
		t.Errorf("%+v", f)
	}
}
