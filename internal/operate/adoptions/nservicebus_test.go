package adoptions

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func serviceBus(more amqp.Table) amqp.Table {
	headers := amqp.Table{serviceBusQueue: "orders", serviceBusException + "Message": "boom"}
	for name, value := range more {
		headers[name] = value
	}
	return headers
}

func TestTheMachineIsNotPartOfNServiceBussQueue(t *testing.T) {
	if f := readAs(t, "nservicebus", "error", serviceBus(amqp.Table{serviceBusQueue: "orders@web1"})); f.Queue != "orders" || f.Message.RoutingKey != "orders" {
		t.Errorf("%+v", f)
	}
}

func TestTimesOfNServiceBus(t *testing.T) {
	at := time.Date(2026, 11, 24, 10, 0, 0, 250_000_000, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-11-24 10:00:00:250000 Z": at, "yesterday": {}, "2026-11-24": {}, "": {},
	} {
		if f := readAs(t, "nservicebus", "error", serviceBus(amqp.Table{serviceBusTime: text})); !f.FailedAt.Equal(want) {
			t.Errorf("%q: %s, want %s", text, f.FailedAt, want)
		}
	}
}

func TestNServiceBusCountsImmediateAndDelayedRetries(t *testing.T) {
	if f := readAs(t, "nservicebus", "error", serviceBus(amqp.Table{"NServiceBus.FLRetries": "2", serviceBusRetries: "3"})); f.Attempts != 6 {
		t.Errorf("%d attempts", f.Attempts)
	}
}

func TestAnErrorOfNServiceBusWithoutAMessage(t *testing.T) {
	headers := amqp.Table{serviceBusQueue: "orders", serviceBusException + "ExceptionType": "System.Exception"}
	if f := readAs(t, "nservicebus", "error", headers); f.Error != "System.Exception" {
		t.Errorf("%q", f.Error)
	}
	if f := readAs(t, "nservicebus", "error", amqp.Table{serviceBusQueue: "orders"}); f.Error != "no message" {
		t.Errorf("%q", f.Error)
	}
}

func TestHeadersOfNServiceBussFailureAreRemoved(t *testing.T) {
	f := readAs(t, "nservicebus", "error", serviceBus(amqp.Table{
		"NServiceBus.Retries.Timestamp": "x", "ServiceControl.Retry.UniqueMessageId": "1", "NServiceBus.FLRetries": "1",
		"NServiceBus.Transport.RabbitMQ.DelayInSeconds": int32(10), "NServiceBus.MessageIntent": "Publish", "tenant": "acme",
	}))
	if len(f.Message.Headers) != 2 || f.Message.Headers["NServiceBus.MessageIntent"] != "Publish" || f.Message.Headers["tenant"] != "acme" {
		t.Errorf("%v", f.Message.Headers)
	}
}
