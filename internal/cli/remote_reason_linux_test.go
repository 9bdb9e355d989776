package cli

import (
	"os/exec"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/server/servertest"
)

// In a terminal a command asks for the reason that its token needs, once, and an empty answer reads nothing.
func TestReasonIsAskedForInATerminal(t *testing.T) {
	t.Parallel()
	w := newWithServe(t)
	secret, err := access.OpenTokenFile(w.tokens).Create(access.Token{Name: "ada", Role: access.Viewer, Bodies: true, BodyReasons: true})
	if err != nil {
		t.Fatal(err)
	}
	environ := []string{"WATERSHIP_SERVER=http://" + w.Listen, "WATERSHIP_TOKEN_FILE=" + servertest.WriteFile(t, "token", secret)}
	w.Send(t, w.Exchange, "order.created", amqp.Publishing{MessageId: "order-1", Body: []byte(`{"dish": "carrot"}`)})
	w.Eventually(t, "action: published", 1)
	const question = "The token reads bodies for a reason, which is recorded. Reason:"
	onServer := func(args ...string) *session { return inTerminal(t, environ, exec.Command(w.Binary, args...)) }

	s := onServer("show", "order-1")
	s.expect(question)
	s.press("night shift\n")
	if screen := s.end(exitOK); !strings.Contains(screen, "carrot") || strings.Count(screen, question) != 1 {
		t.Errorf("%s", screen)
	}
	w.Eventually(t, `event.action: audited and watership.audit.operation: "read bodies" and event.reason: "night shift" and user.name: ada`, 1)

	s = onServer("show", "order-1")
	s.expect(question)
	s.press(" \n")
	if screen := s.end(exitUsage); strings.Contains(screen, "carrot") || !strings.Contains(screen, "--server-reason") {
		t.Errorf("%s", screen)
	}
}
