package cli

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

const orderSchema = `{"type": "object", "required": ["id"], "properties": {"total": {"minimum": 0}}}`

// A body that does not fit the schema of its route is poison at once, and the service does not
// see it. serve does not start with a schema that is wrong.
func TestSchemaOfARoute(t *testing.T) {
	t.Parallel()
	service := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusOK })
	i := servertest.InstallEmbedded(t, service.URL)
	broken := servertest.WriteFile(t, "broken.json", `{"type": "order"}`)
	i.Rewrite(t, "concurrency: 32", "concurrency: 32\n    schema: "+broken)
	servertest.WantRun(t, i.Run(t, "serve"), 2, "routes[0].schema: schema "+broken+": /type: ")
	i.Rewrite(t, broken, servertest.WriteFile(t, "order.json", orderSchema))
	i.Serve(t)
	for _, p := range []amqp.Publishing{
		{MessageId: "m-1", Body: []byte(`{"id": 1, "total": 12}`)}, {MessageId: "m-2", Body: []byte(`{"total": -1}`)}, {MessageId: "m-3", Body: []byte("order 3")},
	} {
		i.Send(t, i.Exchange, "k", p)
	}
	i.Eventually(t, "action: handled", 1)
	for _, e := range i.Eventually(t, "action: poisoned and watership.class: schema", 2) {
		want := "the body does not fit the schema order.json: the body is not JSON: invalid character 'o' looking for beginning of value"
		if e.Envelope.Properties.MessageID == "m-2" {
			want = `the body does not fit the schema order.json: the body: expected member "id" (#/required); /total: expected at least 0 (#/properties/total/minimum)`
		}
		if e.Attempt != 1 || e.Failure.Type != "schema fault" || e.Failure.Message != want {
			t.Errorf("attempt %d, %+v", e.Attempt, e.Failure)
		}
	}
	if posts := service.Got(); len(posts) != 1 || len(posts["m-1"]) != 1 {
		t.Errorf("the service got %+v", posts)
	}
}

// validate tells which stored messages do not fit, by a file and by the schema of a route, on
// the servers and through the API.
func TestValidate(t *testing.T) {
	t.Parallel()
	a := newSeededFile(t)
	for n, text := range []string{`{"id": 0, "total": -2}`, `{"id": 1, "total": 1}`, "no JSON"} {
		a.keep(t, a.event(n+1, schemas.Published, body(text)))
	}
	schema := servertest.WriteFile(t, "order.json", orderSchema)
	a.environ = append(a.environ, "WATERSHIP_ROUTES=[{queue: orders, schema: "+schema+", handler: {http: {url: 'http://127.0.0.1:1/'}}}, {queue: mails, handler: {http: {url: 'http://127.0.0.1:1/'}}}]")
	s := serveAPI(t, config.Sources{Environ: slices.DeleteFunc(slices.Clone(a.environ), func(v string) bool { return v == "TZ=UTC" })})
	viewer, blind := s.environ(t, access.Token{Name: "vic", Role: access.Viewer, Bodies: true}), s.environ(t, access.Token{Name: "bob", Role: access.Viewer})
	const negative, text = "/total: expected at least 0 (#/properties/total/minimum)", "the body is not JSON: invalid character 'o' in literal null (expecting 'u')"
	for _, test := range []struct {
		code  int
		words []string
		args  []string
	}{
		{exitDifferent, []string{"  message m-1, event ", negative, text, "3 messages checked, 2 of them do not fit the schema order.json\n", "2 of 3 messages do not fit"}, []string{"*", "--schema", schema}},
		{exitDifferent, []string{"(1 are printed: see --limit)"}, []string{"*", "--schema", schema, "--limit", "1"}},
		{exitDifferent, []string{`"failed": 1`, `"message_id": "m-1"`, `"exchange": "shop"`}, []string{"messaging.message.id: m-1", "--schema", schema, "-o", "json"}},
		{exitOK, []string{"1 message checked, 0 of them"}, []string{"messaging.message.id: m-2", "--schema", schema}},
		{exitDifferent, []string{negative, "2 of 3 messages do not fit"}, []string{"*", "--route", "orders"}},
		{exitDifferent, []string{`"message_id":"m-1"`}, []string{"*", "--route", "orders", "-o", "ndjson"}},
		{exitUsage, []string{"expected either"}, []string{"*"}},
		{exitUsage, []string{`/type: `}, []string{"*", "--schema", servertest.WriteFile(t, "broken.json", `{"type": 1}`)}},
		{exitUsage, []string{"schema nosuch.json: no such file"}, []string{"*", "--schema", "nosuch.json"}},
		{exitUsage, []string{"the route of queue mails has no schema"}, []string{"*", "--route", "mails"}},
	} {
		args := append([]string{"validate"}, test.args...)
		directly := a.call(t, args...)
		servertest.WantRun(t, directly, test.code, test.words...)
		if through := call(t.Context(), strings.NewReader(""), viewer, args...); through != directly {
			t.Errorf("%v through the server: %+v\ndirectly: %+v", args, through, directly)
		}
	}
	if got := call(t.Context(), strings.NewReader(orderSchema), viewer, "validate", "*", "--schema", "-"); got.Code != exitDifferent || !strings.Contains(got.Out, "do not fit the schema standard input") {
		t.Errorf("%+v", got)
	}
	servertest.WantRun(t, call(t.Context(), strings.NewReader("{"), viewer, "validate", "*", "--schema", "-", "--dsl", "-"), exitUsage, "cannot both be standard input")
	servertest.WantRun(t, call(t.Context(), strings.NewReader(""), blind, "validate", "*", "--schema", schema), exitFailed, "may not read bodies")
}
