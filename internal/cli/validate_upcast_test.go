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

// An upcast is tried on recorded messages, kept with a subscription, shown with its version and changed, directly and
// through the API.
func TestUpcastCommands(t *testing.T) {
	t.Parallel()
	service := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusOK })
	i := servertest.InstallEmbedded(t, service.URL)
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	i.Environ = append(os.Environ(), "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+tokens)
	w := withServe{i, nil, tokens}
	operator, blind := w.token(t, "ann", access.Operator, true), w.token(t, "bob", access.Operator, false)
	i.Serve(t)
	for n, body := range []string{`{"total":1}`, `{"total":"none"}`, `{"total":{"amount":7}}`} {
		i.Send(t, i.Exchange, "k", amqp.Publishing{MessageId: fmt.Sprintf("m-%d", n), Body: []byte(body)})
	}
	i.Eventually(t, "action: published", 3)
	program := servertest.WriteFile(t, "v2.jq", `.body.total |= if type == "object" then . else {amount: (. + 0)} end`)
	for n, environ := range [][]string{nil, operator} {
		name := fmt.Sprintf("billing-%d", n)
		run := func(want int, words string, args ...string) {
			t.Helper()
			if got := w.through(t, environ, args...); got.Code != want || !strings.Contains(got.Out+got.Err, words) {
				t.Errorf("%v: %+v\nwant %q", args, got, words)
			}
		}
		query := "action: published"
		run(exitDifferent, "becomes\n", "validate", query, "--upcast", program)
		run(exitDifferent, `body.total`, "validate", query, "--upcast", program)
		run(exitDifferent, "3 messages checked, 1 of them changed, 1 of them fail\n", "validate", query, "--upcast", program)
		run(exitDifferent, "cannot add: string (\"none\") and number (0)\n", "validate", query, "--upcast", program)
		run(exitDifferent, "the upcast fails for 1 of 3 messages", "validate", query, "--upcast", program)
		run(exitFailed, "subscription "+name, "validate", "--subscription", name)
		run(exitOK, "", "subscribe", name, query, "--from", "now", "--to-queue", "q", "--upcast", program)
		run(exitOK, "upcast      version 1: .body.total |=", "subscriptions", "show", name)
		run(exitDifferent, `"changed": 1`, "validate", "--subscription", name, "-o", "json")
		run(exitOK, "1 message checked, 0 of them changed, 0 of them fail\n", "validate", "messaging.message.id: m-2", "--subscription", name)
		moves := servertest.WriteFile(t, "moves.jq", `.routing_key = "order.v2"`)
		run(exitDifferent, "it changes the exchange or the routing key of a message that is sent to a queue", "validate", "--subscription", name, "--upcast", moves)
		run(exitOK, "3 messages checked, 3 of them changed", "validate", query, "--upcast", moves)
		run(exitOK, "", "subscriptions", "configure", name, "--upcast", moves)
		run(exitOK, `"upcast_version": 2`, "subscriptions", "show", name, "-o", "json")
		run(exitOK, "", "subscriptions", "configure", name, "--upcast", "")
		run(exitUsage, "subscription "+name+" has no program", "validate", "--subscription", name)
	}
	servertest.WantRun(t, i.Run(t, "validate", "*", "--upcast", servertest.WriteFile(t, "broken.jq", ".body |")), exitUsage, "the program cannot be parsed")
	servertest.WantRun(t, i.Run(t, "validate", "*", "--upcast", program, "--route", "q"), exitUsage, "expected either --schema")
	servertest.WantRun(t, w.through(t, blind, "subscriptions", "configure", "billing-0", "--upcast", program), 1, "may not read bodies")
	servertest.WantRun(t, w.through(t, blind, "subscribe", "other", "*", "--to-queue", "q", "--upcast", program), 1, "may not read bodies")
}
