package cli

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/server/servertest"
)

// A person is erased by a command beside serve, and what is printed, logged and recorded has the hash alone.
func TestErase(t *testing.T) {
	servertest.OnEither(t, func(t *testing.T, p servertest.Parts) {
		const subject = "C-4711-Secret"
		handler := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		t.Cleanup(handler.Close)
		i := p.Install(t, handler.URL)
		keys := servertest.WriteFile(t, "originals", "a "+strings.Repeat("0b", 32))
		hashes := servertest.WriteFile(t, "hashes", strings.Repeat("0a", 32))
		i.Rewrite(t, "index: {", "redact: {hash_key_file: "+hashes+", original_keys_file: "+keys+", rules: [{header: x-customer, as: customer, subject: true}]}\nindex: {")
		serve := i.Serve(t)
		i.Send(t, i.Exchange, "k", amqp.Publishing{MessageId: "m-1", Headers: amqp.Table{"x-customer": subject}, Body: []byte("of " + subject)})
		i.Eventually(t, "action: handled", 1)
		i.Send(t, i.Exchange, "k", amqp.Publishing{MessageId: "m-2", Headers: amqp.Table{"x-customer": "C-4712-Secret"}, Body: []byte("of another")})
		i.Eventually(t, "action: published", 2)
		i.Eventually(t, "action: handled", 2)
		found := i.Must(t, "subject", subject)
		hash, _, _ := strings.Cut(found, ":")
		servertest.WantWords(t, found, "1 message, 2 events about it", "1 key opens the originals")
		if lines := i.Must(t, "subject", subject, "-o", "ndjson"); strings.Count(lines, "\n") != 2 || !strings.Contains(lines, hash) {
			t.Errorf("it exports %s", lines)
		}
		servertest.WantWords(t, i.Must(t, "subject", "nobody"), "nothing is recorded about it")
		servertest.WantRun(t, i.Run(t, "erase", subject, "--yes"), exitUsage, "--reason is required")
		servertest.WantWords(t, i.Must(t, "erase", subject, "--dry-run"), "this does not erase:", "the data of services")
		done := i.Run(t, "erase", subject, "--yes", "--operator", "eve", "--reason", "asked in May")
		servertest.WantRun(t, done, exitOK, "destroyed 1 key; other processes may use it for up to 1m")
		again := i.Run(t, "erase", hash, "--yes", "--reason", "asked in May")
		servertest.WantRun(t, again, exitOK, "no key is left to destroy", "it was erased")
		refused := i.Run(t, "replay", "message.id: m-1", "--again", "--yes", "--reason", "a test")
		servertest.WantRun(t, refused, exitFailed, "1  erased, and not sent", "was erased: the key of "+hash+" is destroyed")
		others := i.Run(t, "replay", "action: published", "--again", "--transform", servertest.WriteFile(t, "again.jq", ".headers.again = 1"), "--yes", "--reason", "a test")
		servertest.WantRun(t, others, exitFailed, "2 messages to send", "1  erased, and not sent", "sent 1 of 2", "was erased: the key of "+hash+" is destroyed")
		var operations []string
		for _, audited := range i.Eventually(t, "action: audited and user.name: eve", 2) {
			operations = append(operations, audited.Audit.Operation)
			if audited.Audit.Object != hash || audited.Audit.Reason != "asked in May" {
				t.Errorf("recorded %+v", audited.Audit)
			}
		}
		if slices.Sort(operations); !slices.Equal(operations, []string{"begin to erase subject", "erase subject"}) {
			t.Errorf("recorded %q", operations)
		}
		i.Eventually(t, "watership.subject: "+hash, 2)
		serve.Stop(t)
		for what, text := range map[string]string{
			"the search": i.Must(t, "search", "*", "-o", "ndjson"), "the log": serve.Logs.String(), "the command": done.Out + done.Err + again.Out + again.Err + refused.Out + refused.Err + others.Out + others.Err + found,
		} {
			if strings.Contains(text, subject) {
				t.Errorf("%s has the subject: %s", what, text)
			}
		}
	})
}
