package messagefield

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/template/target"
	"github.com/watershipmq/watership/schemas"
)

// Values of a message, or the beginning of the reason why it has none.
func TestValue(t *testing.T) {
	e := schemas.Envelope{
		Exchange: "shop", RoutingKey: "order..7", Properties: schemas.Properties{MessageID: "m-1", CorrelationID: "c", Type: "created"},
		Headers: amqp.Table{
			"tenant": "acme", "n": int32(12), "half": 1.5, "list": []any{"a"}, "line": "a\nb", "long": strings.Repeat("x", 8<<10+1),
			"watership-queue": "orders", "x-death": "forged",
		},
		Body: []byte("\ufeff" + `{"order":{"id":7,"a.b":"dotted","twice":1,"twice":2,"none":null},"lines":[{"sku":"s-1"}]}`),
	}
	for template, want := range map[string]string{
		"{headers.tenant}": "acme", "{headers.n}": "12", "{headers.half}": "1.5", "{exchange}": "shop", "{routing_key}": "order..7",
		"{message.id}": "m-1", "{correlation_id}": "c", "{type}": "created",
		"{routing_key.1}": "order", "{routing_key.3}": "7", "{routing_key.-1}": "7", "{routing_key.-3}": "order",
		"{routing_key.2}": "missing", "{routing_key.4}": "missing", "{routing_key.-4}": "missing",
		"{body.json.order.id}": "7", "{body:/order/a.b}": "dotted", "{body.json.lines.0.sku}": "s-1",
		"{body.json.order.none}": "missing", "{body.json.order}": "invalid", "{body.json.order.twice}": "invalid", "{body.json.lines.1.sku}": "missing",
		"{headers.list}": "invalid", "{headers.line}": "invalid", "{headers.long}": "invalid", "{headers.nobody}": "missing",
		"{headers.watership-queue}": "missing", "{headers.x-death}": "missing",
	} {
		parsed, err := target.ParseTemplate(template)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parsed.Fill(func(f target.Field) (string, error) { return Value(e, f) })
		if problem, failed := err.(*target.Problem); failed {
			got = map[string]string{target.MissingField: "missing", target.InvalidField: "invalid"}[problem.Kind]
		}
		if got != want {
			t.Errorf("%s: got %q (%v), want %q", template, got, err, want)
		}
	}
}
