package cli

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/server/servertest"
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
// the servers and through the API. Bodies that events leave out are found, and equal messages
// count once.
func TestValidate(t *testing.T) {
	t.Parallel()
	service := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusOK })
	i := servertest.InstallEmbedded(t, service.URL)
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	i.Environ = append(os.Environ(), "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+tokens)
	w := withServe{i, nil, tokens}
	viewer, blind := w.token(t, "vic", access.Viewer, true), w.token(t, "bob", access.Viewer, false)
	p := i.Serve(t)
	const messages = 70
	for n := range messages {
		body := fmt.Sprintf(`{"id": %d, "total": %d}`, n, n-2) // two are negative
		i.Send(t, i.Exchange, "k", amqp.Publishing{MessageId: fmt.Sprintf("m-%02d", n), Body: []byte(body)})
	}
	for range 2 {
		i.Send(t, i.Exchange, "k", amqp.Publishing{Body: []byte("no JSON")})
	}
	i.Eventually(t, "action: handled", messages+2)
	i.Eventually(t, "action: published", messages+2)

	schema := servertest.WriteFile(t, "order.json", orderSchema)
	const negative, text = "/total: expected at least 0 (#/properties/total/minimum)", "the body is not JSON: invalid character 'o' in literal null (expecting 'u')"
	same := func(want int, words []string, args ...string) {
		t.Helper()
		directly := i.Run(t, args...)
		servertest.WantRun(t, directly, want, words...)
		if through := w.through(t, viewer, args...); through != directly {
			t.Errorf("%v through the server: %+v\ndirectly: %+v", args, through, directly)
		}
	}
	same(3, []string{"  message m-01, event ", "  event ", negative, text, "71 messages checked, 3 of them do not fit the schema order.json\n", "3 of 71 messages do not fit"}, "validate", "action: handled", "--schema", schema)
	same(3, []string{"(1 are printed: see --limit)"}, "validate", "*", "--schema", schema, "--limit", "1")
	same(3, []string{`"failed": 1`, `"message_id": "m-01"`, `"exchange": "` + i.Exchange + `"`}, "validate", "messaging.message.id: m-01", "--schema", schema, "-o", "json")
	same(0, []string{"1 message checked, 0 of them"}, "validate", "messaging.message.id: m-69", "--schema", schema)
	piped := i.Run(t, "validate", "action: handled", "--schema", schema)
	piped.Out = strings.ReplaceAll(piped.Out, "order.json", "standard input")
	piped.Err = strings.ReplaceAll(piped.Err, "order.json", "standard input")
	if got := call(t.Context(), strings.NewReader(orderSchema), viewer, "validate", "action: handled", "--schema", "-"); got != piped {
		t.Errorf("%+v\nof the file: %+v", got, piped)
	}
	servertest.WantRun(t, call(t.Context(), strings.NewReader("{"), viewer, "validate", "*", "--schema", "-", "--dsl", "-"), exitUsage, "cannot both be standard input")
	same(2, []string{"expected either"}, "validate", "*")
	same(2, []string{`/type: `}, "validate", "*", "--schema", servertest.WriteFile(t, "broken.json", `{"type": 1}`))
	same(2, []string{"schema nosuch.json: no such file"}, "validate", "*", "--schema", "nosuch.json")
	same(2, []string{"the route of queue " + i.Queue + " has no schema"}, "validate", "*", "--route", i.Queue)
	i.Rewrite(t, "concurrency: 32", "concurrency: 32\n    schema: "+schema)
	p.HangUp(t, `msg="configuration reloaded"`)
	same(3, []string{negative, "3 of 71 messages do not fit"}, "validate", "action: handled", "--route", i.Queue)
	same(3, []string{`"message_id":"m-00"`}, "validate", "messaging.message.id: m-0*", "--route", i.Queue, "-o", "ndjson")
	servertest.WantRun(t, w.through(t, blind, "validate", "*", "--route", i.Queue), 1, "may not read bodies")
	servertest.WantRun(t, w.through(t, blind, "validate", "*", "--schema", schema), 1, "may not read bodies")

	i.Send(t, i.Exchange, "k", amqp.Publishing{MessageId: "m-99", Body: []byte("{}")})
	i.Eventually(t, "action: poisoned and watership.class: schema", 1) // since the reload
}
