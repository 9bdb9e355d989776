package cli

import (
	"net/http"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

const orderSchema = `{"type": "object", "required": ["id"], "properties": {"total": {"minimum": 0}}}`

// A body that does not fit the schema of its route is poison at once, and the service does not
// see it. serve does not start with a schema that is wrong.
func TestSchemaOfARoute(t *testing.T) {
	t.Parallel()
	service := newService(t, func(post, int) int { return http.StatusOK })
	i := installEmbedded(t, service.url)
	broken := writeFile(t, "broken.json", `{"type": "order"}`)
	i.rewrite(t, "concurrency: 32", "concurrency: 32\n    schema: "+broken)
	wantRun(t, i.run(t, "serve"), 2, "routes[0].schema: schema "+broken+": /type: ")
	i.rewrite(t, broken, writeFile(t, "order.json", orderSchema))
	i.serve(t)
	for _, p := range []amqp.Publishing{
		{MessageId: "m-1", Body: []byte(`{"id": 1, "total": 12}`)}, {MessageId: "m-2", Body: []byte(`{"total": -1}`)}, {MessageId: "m-3", Body: []byte("order 3")},
	} {
		i.send(t, i.exchange, "k", p)
	}
	i.eventually(t, "action: handled", 1)
	for _, e := range i.eventually(t, "action: poisoned and watership.class: schema", 2) {
		want := "the body does not fit the schema order.json: the body is not JSON: invalid character 'o' looking for beginning of value"
		if e.Envelope.Properties.MessageID == "m-2" {
			want = `the body does not fit the schema order.json: the body: expected member "id" (#/required); /total: expected at least 0 (#/properties/total/minimum)`
		}
		if e.Attempt != 1 || e.Failure.Type != "schema fault" || e.Failure.Message != want {
			t.Errorf("attempt %d, %+v", e.Attempt, e.Failure)
		}
	}
	if posts := service.got(); len(posts) != 1 || len(posts["m-1"]) != 1 {
		t.Errorf("the service got %+v", posts)
	}
}
