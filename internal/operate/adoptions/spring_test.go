package adoptions

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// readAs returns the failure of a message with some headers, as a format reads it.
func readAs(t *testing.T, format, errorQueue string, headers amqp.Table) Failure {
	t.Helper()
	f, err := FormatNamed(format)
	must(t, err)
	failure, err := f.Read(schemas.Envelope{Exchange: "errors", RoutingKey: errorQueue, Headers: headers, Body: []byte("{}")}, errorQueue, "", schemas.Topology{})
	must(t, err)
	return failure
}

func springHeaders(message any, stack string) amqp.Table {
	return amqp.Table{springMessage: message, springStack: stack, springExchange: "shop", springRoutingKey: "order.created"}
}

func TestSpringsQueueIsInTheNameOfTheErrorQueue(t *testing.T) {
	for errorQueue, want := range map[string]string{
		"orders.dlq": "orders", "orders.DLQ": "orders", "orders-dlq": "orders", "orders.error": "orders", "shop.orders.dlq": "shop.orders",
	} {
		if got := readAs(t, "spring", errorQueue, springHeaders("boom", "")).Queue; got != want {
			t.Errorf("%s: queue %s, want %s", errorQueue, got, want)
		}
	}
}

func TestSpringsOriginIsWhereTheMessageWasPublished(t *testing.T) {
	f := readAs(t, "spring", "orders.dlq", springHeaders("boom", ""))
	if f.Message.Exchange != "shop" || f.Message.RoutingKey != "order.created" || len(f.Message.Headers) != 0 {
		t.Errorf("%+v", f.Message)
	}
}

func TestSpringsMessageMayBeBytes(t *testing.T) {
	if f := readAs(t, "spring", "orders.dlq", springHeaders([]byte("boom \xff"), "")); f.Error != "boom ?" {
		t.Errorf("%q", f.Error)
	}
}

func TestAStackTraceAloneIsAFailureOfSpring(t *testing.T) {
	headers := springHeaders(nil, "java.lang.NullPointerException\n\tat a.B")
	delete(headers, springMessage)
	if f := readAs(t, "spring", "orders.dlq", headers); f.Error != "java.lang.NullPointerException" || f.ErrorType != f.Error {
		t.Errorf("%+v", f)
	}
}

func TestAPartitionOfSpringHasItsNumber(t *testing.T) {
	for name, test := range map[string]struct{ errorQueue, exchange, key, want string }{
		"a partition":               {"shop.audit.dlq", "shop", "shop-3", "shop.audit-3"},
		"no number":                 {"shop.audit.dlq", "shop", "shop-three", "shop.audit"},
		"another key":               {"shop.audit.dlq", "shop", "order-3", "shop.audit"},
		"a queue of another object": {"orders.dlq", "shop", "shop-3", "orders"},
	} {
		f := readAs(t, "spring", test.errorQueue, amqp.Table{springMessage: "boom", springExchange: test.exchange, springRoutingKey: test.key})
		if f.Queue != test.want {
			t.Errorf("%s: queue %s, want %s", name, f.Queue, test.want)
		}
	}
}

func TestTypesOfJavaStacks(t *testing.T) {
	const wrapped = "a.Wrapper: failed\n\tat a.B\nCaused by: b.Cause: boom\n\tat b.C\nCaused by: c.Root: disk\n"
	for name, test := range map[string]struct{ message, stack, want string }{
		"the line with the message":      {"boom", wrapped, "b.Cause"},
		"the outermost":                  {"failed", wrapped, "a.Wrapper"},
		"the innermost":                  {"disk", wrapped, "c.Root"},
		"the first cause of another one": {"something else", wrapped, "b.Cause"},
		"the first line of a message":    {"disk\nfull", wrapped, "c.Root"},
		"without a cause":                {"something else", "a.Wrapper: failed\n\tat a.B\n", "a.Wrapper"},
		"without a message":              {"", "a.Wrapper\n\tat a.B\n", "a.Wrapper"},
		"with line ends of Windows":      {"boom", "a.Wrapper\r\n\tat a.B\r\n", "a.Wrapper"},
		"no stack":                       {"boom", "", ""},
		"no trace":                       {"boom", "it went wrong: boom\n", ""},
	} {
		if got := javaType(test.message, test.stack); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
