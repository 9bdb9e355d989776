package adoptions_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operate/adoptions"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/tablejson"
)

var deaths = []any{amqp.Table{
	"queue": "orders", "reason": "rejected", "exchange": "shop", "routing-keys": []any{"order.created"}, "count": int64(3),
	"time": time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC),
}}

// The headers are those that the documentation of each system names.
func TestFormats(t *testing.T) {
	body := `{"order": 7}`
	created := schemas.Envelope{Exchange: "shop", RoutingKey: "order.created", Headers: amqp.Table{"tenant": "acme"}, Body: []byte(body)}
	atQueue := created
	atQueue.Exchange, atQueue.RoutingKey = "", "orders"
	at := time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)
	sneakers, _ := json.Marshal(map[string]any{
		"error": "boom", "error_class": "RuntimeError", "num_attempts": 6, "failed_at": "2026-11-24T11:00:00+01:00",
		"backtrace": "a.rb:1, b.rb:2", "payload": base64.StdEncoding.EncodeToString([]byte(body)),
	})
	properties := base64.StdEncoding.EncodeToString([]byte(`{"content_type":"application/json","message_id":"m-1","priority":5,"headers":{"tenant":"acme","n":7,"retry_info":"x"}}`))
	sneakers25, _ := json.Marshal(map[string]any{
		"error": "boom", "num_attempts": "6", "failed_at": "2026-11-24T11:00:00+01:00",
		"payload": base64.StdEncoding.EncodeToString([]byte(body)), "properties": properties[:60] + "\n" + properties[60:] + "\n",
	})
	restored := with(id(atQueue, "m-1"), "n", int32(7))
	restored.Properties.ContentType, restored.Properties.Priority = "application/json", 5
	partition := schemas.Envelope{Exchange: "shop", RoutingKey: "shop-1", Headers: amqp.Table{"tenant": "acme"}, Body: []byte(body)}
	for name, test := range map[string]struct {
		format, queue string
		headers       amqp.Table // beside tenant
		body          string
		want          adoptions.Failure
	}{
		"spring": {"spring", "orders.dlq", amqp.Table{
			"x-exception-message": "boom", "x-original-exchange": "shop", "x-original-routingKey": "order.created",
			"x-exception-stacktrace": "org.springframework.ListenerExecutionFailedException: Listener threw exception\n\tat a.B\nCaused by: java.lang.IllegalStateException: boom\n\t... 3 more\nCaused by: java.io.IOException: disk\n",
		}, body, adoptions.Failure{
			Message: created, Queue: "orders", Error: "boom", ErrorType: "java.lang.IllegalStateException",
			Stack: "org.springframework.ListenerExecutionFailedException: Listener threw exception\n\tat a.B\nCaused by: java.lang.IllegalStateException: boom\n\t... 3 more\nCaused by: java.io.IOException: disk\n",
		}},
		"spring, an exception without a message": {"spring", "orders.dlq", amqp.Table{
			"x-exception-message": nil, "x-original-exchange": "shop", "x-original-routingKey": "order.created",
		}, body, adoptions.Failure{Message: created, Queue: "orders", Error: "no message"}},
		"spring, a partition": {"spring", "shop.audit.dlq", amqp.Table{
			"x-exception-message": "boom", "x-original-exchange": "shop", "x-original-routingKey": "shop-1",
		}, body, adoptions.Failure{Message: partition, Queue: "shop.audit-1", Error: "boom"}},
		"masstransit": {"masstransit", "orders_error", amqp.Table{
			"MT-Reason": "fault", "MT-Fault-ExceptionType": "System.InvalidOperationException", "MT-Fault-Message": "boom",
			"MT-Fault-StackTrace": "at A.B()", "MT-Fault-Timestamp": "2026-11-24T10:00:00.0000000Z", "MT-Fault-RetryCount": int32(4),
			"MT-Fault-InputAddress": "rabbitmq://localhost/shop/orders?durable=true", "MT-Host-MachineName": "web1", "MT-Redelivery-Count": int32(3),
		}, body, adoptions.Failure{
			Message: atQueue, Queue: "orders", Error: "boom", ErrorType: "System.InvalidOperationException", Stack: "at A.B()", Attempts: 5, FailedAt: at,
		}},
		"masstransit skipped": {"masstransit", "orders_skipped", amqp.Table{"MT-Reason": "dead-letter"}, body, adoptions.Failure{
			Message: atQueue, Queue: "orders", Error: `no consumer of queue "orders" takes messages of this type`, ErrorType: "dead-letter", Attempts: 1,
		}},
		"nservicebus": {"nservicebus", "error", amqp.Table{
			"NServiceBus.FailedQ": "orders", "NServiceBus.TimeOfFailure": "2026-11-24 10:00:00:000000 Z", "NServiceBus.Retries": "3",
			"NServiceBus.ExceptionInfo.ExceptionType": "System.Exception", "NServiceBus.ExceptionInfo.Message": "boom",
			"NServiceBus.ExceptionInfo.StackTrace": "at A.B()", "NServiceBus.ExceptionInfo.HelpLink": nil,
			"ServiceControl.Retry.UniqueMessageId": "1", "NServiceBus.Transport.RabbitMQ.DelayInSeconds": int32(10),
		}, body, adoptions.Failure{
			Message: atQueue, Queue: "orders", Error: "boom", ErrorType: "System.Exception", Stack: "at A.B()", Attempts: 4, FailedAt: at,
		}},
		"wolverine": {"wolverine", "wolverine-dead-letter-queue", amqp.Table{
			"exception-type": "System.Exception", "exception-message": "boom", "exception-stack": "at A.B()",
			"failed-at": "1795514400000", "attempts": int32(3), "original-destination": "rabbitmq://queue/orders",
		}, body, adoptions.Failure{
			Message: atQueue, Queue: "orders", Error: "boom", ErrorType: "System.Exception", Stack: "at A.B()", Attempts: 3, FailedAt: at,
		}},
		"wolverine by the broker": {"wolverine", "wolverine-dead-letter-queue", amqp.Table{"x-death": deaths, "attempts": int32(5)}, body, adoptions.Failure{
			Message: created, Queue: "orders", Error: `dead-lettered from queue "orders": rejected`, ErrorType: "rejected", Attempts: 5, FailedAt: at,
		}},
		"kicks": {"kicks", "orders-error", amqp.Table{
			"retry_info": `[{"error":"boom","error_class":"RuntimeError","num_attempts":6,"failed_at":"2026-11-24T10:00:00Z","backtrace":["a.rb:1","b.rb:2"],"properties":{"message_id":"m-1","headers":{"tenant":"acme","n":7,"x-death":[{}]}}},{"error":"earlier"}]`,
		}, body, adoptions.Failure{
			Message: with(id(atQueue, "m-1"), "n", int32(7)), Queue: "orders", Error: "boom", ErrorType: "RuntimeError", Stack: "a.rb:1\nb.rb:2", Attempts: 6, FailedAt: at,
		}},
		"sneakers": {"kicks", "orders-error", nil, string(sneakers), adoptions.Failure{
			Message: schemas.Envelope{RoutingKey: "orders", Headers: amqp.Table{}, Body: []byte(body)},
			Queue:   "orders", Error: "boom", ErrorType: "RuntimeError", Stack: "a.rb:1, b.rb:2", Attempts: 6, FailedAt: at,
		}},
		"sneakers 2.5": {"kicks", "orders-error", nil, string(sneakers25), adoptions.Failure{
			Message: restored, Queue: "orders", Error: "boom", Attempts: 6, FailedAt: at,
		}},
		"celery": {"celery", "celery.dlq", amqp.Table{"x-death": deaths, "task": "shop.ship", "retries": int32(2)}, body, adoptions.Failure{
			Message: with(created, "task", "shop.ship", "retries", int32(2)), Queue: "orders", Error: "task shop.ship: rejected", ErrorType: "shop.ship", Attempts: 3, FailedAt: at,
		}},
		"watermill": {"watermill", "poison", amqp.Table{
			"reason_poisoned": "boom", "topic_poisoned": "orders", "handler_poisoned": "ship", "subscriber_poisoned": "amqp.Subscriber",
		}, body, adoptions.Failure{Message: atQueue, Queue: "orders", Error: "boom", ErrorType: "ship"}},
		"dead letter": {"dead-letter", "orders.dlq", amqp.Table{
			"x-death": deaths, "x-first-death-queue": "orders", "x-first-death-reason": "rejected", "x-first-death-exchange": "shop",
		}, body, adoptions.Failure{
			Message: created, Queue: "orders", Error: `dead-lettered from queue "orders": rejected`, ErrorType: "rejected", Attempts: 3, FailedAt: at,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			format, err := adoptions.FormatNamed(test.format)
			if err != nil {
				t.Fatal(err)
			}
			arrived := schemas.Envelope{Exchange: "errors", RoutingKey: test.queue, Headers: amqp.Table{"tenant": "acme"}, Body: []byte(test.body)}
			for name, value := range test.headers {
				arrived.Headers[name] = value
			}
			got, err := format.Read(arrived, test.queue, "", schemas.Topology{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			renamed, err := format.Read(arrived, "e", "billing", schemas.Topology{})
			if err != nil || renamed.Queue != "billing" || renamed.Message.Exchange == "" && renamed.Message.RoutingKey != "billing" {
				t.Errorf("with --queue billing: %+v, %v", renamed, err)
			}
			if got, err := format.Read(arrived, test.queue, "watership.poison", schemas.Topology{}); err == nil {
				t.Errorf("a failure of Watership's own queue: %+v", got)
			}
		})
	}
}

func TestMessagesThatNeverFailed(t *testing.T) {
	plain := schemas.Envelope{RoutingKey: "orders", Headers: amqp.Table{"tenant": "acme"}, Body: []byte(`{"order": 7}`)}
	for _, format := range adoptions.Formats() {
		if _, err := format.Read(plain, "orders", "", schemas.Topology{}); err == nil || !strings.Contains(err.Error(), "none of") {
			t.Errorf("%s: %v", format.Name, err)
		}
	}
}

func with(e schemas.Envelope, pairs ...any) schemas.Envelope {
	e = e.Clone()
	for i := 0; i < len(pairs); i += 2 {
		e.Headers[pairs[i].(string)] = pairs[i+1]
	}
	return e
}

func id(e schemas.Envelope, id string) schemas.Envelope {
	e.Properties.MessageID = id
	return e
}

// A header that is there and cannot be read is not called missing.
func TestUnreadableHeaders(t *testing.T) {
	for name, test := range map[string]struct {
		format  string
		headers amqp.Table
		want    string
	}{
		"none":         {"spring", nil, "it has no header x-exception-message or x-exception-stacktrace"},
		"a number":     {"spring", amqp.Table{"x-exception-message": int32(1)}, "its header x-exception-message has another type"},
		"an empty one": {"watermill", amqp.Table{"reason_poisoned": ""}, "its header reason_poisoned is empty"},
		"dead letter":  {"dead-letter", amqp.Table{"x-death": "orders"}, "its header x-death has another type"},
	} {
		t.Run(name, func(t *testing.T) {
			format, err := adoptions.FormatNamed(test.format)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := format.Read(schemas.Envelope{Headers: test.headers}, "orders.dlq", "", schemas.Topology{}); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
}

func TestFormatNames(t *testing.T) {
	if _, err := adoptions.FormatNamed("rails"); err == nil || !strings.Contains(err.Error(), "celery, dead-letter, kicks, laravel, masstransit, nservicebus, rebus, spring, symfony, watermill, wolverine") {
		t.Errorf("%v", err)
	}
	spring, _ := adoptions.FormatNamed("spring")
	_, err := spring.Read(schemas.Envelope{Headers: amqp.Table{"x-exception-message": "boom"}}, "failed", "", schemas.Topology{})
	if err == nil || !strings.Contains(err.Error(), "name the queue") {
		t.Errorf("without any queue: %v", err)
	}
}

// FuzzRead: a message of any form gives an error, or a failure of a queue with its body.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		`{"x-exception-message":"a","x-exception-stacktrace":"A: a\nCaused by: B: a"}`, `{"MT-Reason":"fault","MT-Fault-InputAddress":"rabbitmq://h/q"}`,
		`{"NServiceBus.FailedQ":"q@m","NServiceBus.TimeOfFailure":"2026-11-24 10:00:00:000000 Z"}`, `{"exception-type":"T","failed-at":"1","original-destination":"a://b/c"}`,
		`{"retry_info":"[{\"error\":\"e\",\"backtrace\":7}]"}`, `{"task":"t","x-death":[{"queue":"q","count":1}]}`, `{"reason_poisoned":"r","topic_poisoned":"t"}`,
	} {
		f.Add(tableJSON(f, text), []byte(`{"payload":"eA=="}`), "q-error")
	}
	for _, file := range writtenFiles(f) {
		f.Add([]byte(file.Message.Headers), []byte(file.Message.Body), file.Queue)
	}
	f.Fuzz(func(t *testing.T, text, body []byte, queue string) {
		headers, err := tablejson.Parse(text)
		if err != nil {
			t.Skip()
		}
		before := len(headers)
		for _, format := range adoptions.Formats() {
			got, err := format.Read(schemas.Envelope{RoutingKey: queue, Headers: headers, Body: body}, queue, "", schemas.Topology{})
			if err == nil && (got.Queue == "" || len(got.Queue) > 255 || got.Error == "" || got.Attempts < 0 || got.Message.Headers["x-death"] != nil) {
				t.Errorf("%s: %+v", format.Name, got)
			}
			if again, err := format.Read(got.Message, queue, "", schemas.Topology{}); format.Name == "symfony" && got.Queue != "" && err == nil {
				t.Errorf("%s: the message before the failure has one, too: %+v", format.Name, again)
			}
			if len(headers) != before {
				t.Fatalf("%s changed the headers of the message", format.Name)
			}
		}
	})
}

// tableJSON returns an object of JSON as a table, whose types are then in its JSON.
func tableJSON(f *testing.F, text string) []byte {
	f.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		f.Fatal(err)
	}
	return tablejson.Append(nil, table(object))
}

func table(object map[string]any) amqp.Table {
	made := amqp.Table{}
	for name, value := range object {
		switch v := value.(type) {
		case map[string]any:
			value = table(v)
		case []any:
			for i, each := range v {
				if object, is := each.(map[string]any); is {
					v[i] = table(object)
				}
			}
		}
		made[name] = value
	}
	return made
}
