package cli

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

// Commands read an original with a reason, by the keys of their own configuration or through a server by its keys. An
// audit event has the reason either way.
func TestShowAndExportOriginals(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{"hashes": strings.Repeat("0a", 32), "originals": "a " + strings.Repeat("0b", 32)} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := newWithServe(t, "WATERSHIP_REDACT_RULES=[{pattern: mail}]", "WATERSHIP_REDACT_HASH_KEY_FILE="+filepath.Join(folder, "hashes"),
		"WATERSHIP_REDACT_ORIGINAL_KEYS_FILE="+filepath.Join(folder, "originals"))
	const body = `{"mail": "ana@example.com"}`
	w.Send(t, w.Exchange, "order.created", amqp.Publishing{MessageId: "order-1", Headers: amqp.Table{"by": "ana@example.com"}, Body: []byte(body)})
	id := w.Eventually(t, "action: published", 1)[0].Fingerprint
	w.Eventually(t, "action: poisoned", 1)
	environ := func(token access.Token) []string {
		secret, err := access.OpenTokenFile(w.tokens).Create(token)
		if err != nil {
			t.Fatal(err)
		}
		return append(os.Environ(), "WATERSHIP_SERVER=http://"+w.Listen, "WATERSHIP_TOKEN_FILE="+servertest.WriteFile(t, token.Name, secret))
	}
	reader, other := environ(access.Token{Name: "ora", Role: access.Viewer, Bodies: true, Originals: true}), environ(access.Token{Name: "adm", Role: access.Admin, Bodies: true})
	const secret = "ana@example.com"
	for name, environ := range map[string][]string{"directly": nil, "through the server": reader} {
		for _, test := range []struct {
			args  string
			shown bool
			code  int
			err   string
		}{
			{"show order-1", false, exitOK, ""},
			{"show order-1 --original --reason ticket-7", true, exitOK, ""},
			{"show --raw --original --reason ticket-7 order-1", true, exitOK, ""},
			{"show order-1 --original", false, exitUsage, "--original needs --reason"},
			{"show order-1 --reason ticket-7", false, exitUsage, "--reason is for --original"},
			{"export action:published", false, exitOK, ""},
			{"export action:published --original --reason ticket-7", true, exitOK, ""},
			{"export action:published --original", false, exitUsage, "--original needs --reason"},
		} {
			got := w.through(t, environ, strings.Fields(test.args)...)
			if got.Code != test.code || strings.Contains(got.Out+got.Err, secret) != test.shown || !strings.Contains(got.Err, test.err) {
				t.Errorf("%s: watership %s: %+v", name, test.args, got)
			}
			if strings.Contains(test.args, "--raw") && got.Out != body {
				t.Errorf("%s: the raw original is %q", name, got.Out)
			}
		}
	}
	for _, args := range []string{"show order-1 --original --reason x", "export action:published --original --reason x"} {
		if got := w.through(t, other, strings.Fields(args)...); got.Code == exitOK || strings.Contains(got.Out+got.Err, secret) || !strings.Contains(got.Err, "adm may not read originals") {
			t.Errorf("without the permission: %s: %+v", args, got)
		}
	}
	opened := servertest.WriteFile(t, "opened.ndjson", w.through(t, reader, "export", "action: published", "--original", "--reason", "ticket-7").Out)
	if got := w.Run(t, "publish", "--ndjson", opened); got.Out != "published 1 message\n" {
		t.Errorf("what was opened is no message: %+v", got)
	}
	if e := w.Eventually(t, "action: published", 2)[1]; e.Fingerprint != id {
		t.Errorf("another message was published: %+v", e)
	}
	const read = `event.action: audited and watership.audit.operation: "read originals" and event.reason: ticket-7 and watership.audit.method: `
	for _, e := range append(w.Eventually(t, read+"logins", 3), w.Eventually(t, read+"token", 4)...) {
		if e.Audit.Object != id && e.Audit.Object != "action:published" && e.Audit.Object != "event.action: published" {
			t.Errorf("%+v", e.Audit)
		}
	}

	w.Environ = append(w.Environ, "WATERSHIP_REDACT_ORIGINAL_KEYS_FILE=")
	for _, args := range []string{"show order-1 --original --reason x", "export action:published --original --reason x"} {
		if got := w.Run(t, strings.Fields(args)...); got.Code == exitOK || got.Out != "" || !strings.Contains(got.Err, "redact.original_keys_file") {
			t.Errorf("without keys: %s: %+v", args, got)
		}
	}
}

// While the keys of subjects are away, show and export write nothing but one error, and later all.
func TestOriginalsWhileTheKeysAreAway(t *testing.T) {
	t.Parallel()
	const customer = "C-4711-Secret"
	keys := filepath.Join(t.TempDir(), "subjects")
	w := newWithServe(t, "WATERSHIP_REDACT_RULES=[{header: x-customer, as: customer, subject: true}, {header: x-mail, as: mail}]",
		"WATERSHIP_REDACT_HASH_KEY_FILE="+servertest.WriteFile(t, "hashes", strings.Repeat("0a", 32)),
		"WATERSHIP_REDACT_ORIGINAL_KEYS_FILE="+servertest.WriteFile(t, "originals", "a "+strings.Repeat("0b", 32)), "WATERSHIP_REDACT_SUBJECT_KEYS_FILE="+keys)
	w.Send(t, w.Exchange, "k", amqp.Publishing{MessageId: "m-1", Headers: amqp.Table{"x-mail": "ana"}, Body: []byte("of nobody")}) // opens without a subject
	w.Eventually(t, "action: published", 1)
	w.Send(t, w.Exchange, "k", amqp.Publishing{MessageId: "m-2", Headers: amqp.Table{"x-customer": customer}, Body: []byte("of " + customer)})
	w.Eventually(t, "action: published", 2)
	commands := [][]string{
		{"show", "m-2", "--original", "--reason", "ticket-7"},
		{"show", "--raw", "m-2", "--original", "--reason", "ticket-7"},
		{"export", "action: published", "--original", "--reason", "ticket-7"},
	}
	if err := os.Rename(keys, keys+" away"); err != nil {
		t.Fatal(err)
	}
	for _, args := range commands {
		got := w.Run(t, args...)
		if got.Code != exitFailed || got.Out != "" || strings.Count(got.Err, "reading the keys of subjects in the SQLite file "+keys) != 1 || strings.Contains(got.Err, "never sent") {
			t.Errorf("%q: %+v", args, got)
		}
	}
	if err := os.Rename(keys+" away", keys); err != nil {
		t.Fatal(err)
	}
	for _, args := range commands {
		if got := w.Run(t, args...); got.Code != exitOK || !strings.Contains(got.Out, customer) {
			t.Errorf("%q: %+v", args, got)
		}
	}
	w.Environ = append(w.Environ, "WATERSHIP_STORE_URL=sqlite:"+filepath.Join(t.TempDir(), "none.db"))
	for _, args := range commands {
		if got := w.Run(t, args...); got.Code != exitFailed || got.Out != "" || !strings.Contains(got.Err, "none.db") {
			t.Errorf("without the store: %q: %+v", args, got)
		}
	}
}

// cutStore gives the keys of subjects in its first requests alone.
type cutStore struct {
	*sqlite.Store
	left *int
}

func (s cutStore) SubjectKeys(ctx context.Context, subjects []string) (map[string][]byte, error) {
	if *s.left--; *s.left < 0 {
		return nil, &eventstore.Error{Kind: eventstore.Unavailable, Reason: "away"}
	}
	return s.Store.SubjectKeys(ctx, subjects)
}

// An export that was cut off says so, and what was written are whole lines.
func TestExportOfOriginalsThatIsCutOff(t *testing.T) {
	t.Parallel()
	broker, file, left := rabbittest.Embedded(t), systemtest.StoreFile(t), 1000
	settings, err := config.Load(config.Sources{Environ: []string{
		"WATERSHIP_AMQP_URL=" + broker.URL, "WATERSHIP_AMQP_MANAGEMENT_URL=" + broker.ManagementURL, "WATERSHIP_SOURCE=test", "WATERSHIP_STORE_URL=sqlite:" + file,
		"WATERSHIP_REDACT_RULES=[{header: x-customer, as: customer, subject: true}]",
		"WATERSHIP_REDACT_HASH_KEY_FILE=" + servertest.WriteFile(t, "hashes", strings.Repeat("0a", 32)),
		"WATERSHIP_REDACT_ORIGINAL_KEYS_FILE=" + servertest.WriteFile(t, "originals", "a "+strings.Repeat("0b", 32)),
	}})
	if err != nil {
		t.Fatal(err)
	}
	sys, err := system.New(system.Config{
		Settings: settings, Name: "test", Logger: slog.New(slog.DiscardHandler),
		OpenStore: func(ctx context.Context) (system.ClosableStore, error) {
			store, err := sqlite.Open(ctx, sqlite.Config{Path: file})
			return cutStore{store, &left}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sys.Close() })
	var events []schemas.Event
	for _, customer := range []string{"C-1", "C-2"} {
		e := schemas.Envelope{Exchange: "shop", RoutingKey: "k", Headers: amqp.Table{"x-customer": customer}, Body: []byte("of " + customer)}
		events = append(events, schemas.Event{Action: schemas.Published, Envelope: e, State: schemas.State{Fingerprint: e.Fingerprint()}})
	}
	redact, err := sys.Redactor().Prepare(t.Context(), events)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		systemtest.Record(t, sys, redact(e))
	}
	systemtest.Index(t, sys) // the audit event
	for _, e := range systemtest.Events(t, sys, "event.action: published") {
		sys.Redactor().Forget(e.Subjects...)
	}
	left = 2 // one before the first event, and one for it
	var out, errs bytes.Buffer
	all := eventstore.Selection{Query: kql.FieldIs("event.action", string(schemas.Published)), Order: eventstore.BySequence}
	err = export(t.Context(), newLocal(sys, "ticket 7"), terminal.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, all, true)
	if err == nil || !strings.Contains(err.Error(), "the export ended after 1 event, before its end: ") || !strings.Contains(err.Error(), "incomplete") {
		t.Errorf("%v", err)
	}
	if text := out.String(); strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "}\n") || !strings.Contains(text, "of C-1") || errs.Len() > 0 {
		t.Errorf("it wrote %q, %q", text, errs.String())
	}
}

// A token that reads bodies for a reason alone needs server_reason; a command in a terminal would ask.
func TestBodiesThroughAServerForAReason(t *testing.T) {
	t.Parallel()
	w := newWithServe(t)
	secret, err := access.OpenTokenFile(w.tokens).Create(access.Token{Name: "ada", Role: access.Viewer, Bodies: true, BodyReasons: true})
	if err != nil {
		t.Fatal(err)
	}
	environ := append(os.Environ(), "WATERSHIP_SERVER=http://"+w.Listen, "WATERSHIP_TOKEN_FILE="+servertest.WriteFile(t, "token", secret))
	w.Send(t, w.Exchange, "order.created", amqp.Publishing{MessageId: "order-1", Body: []byte(`{"dish": "carrot"}`)})
	w.Eventually(t, "action: published", 1)
	for _, args := range [][]string{
		{"show", "order-1"},
		{"show", "--raw", "order-1"},
		{"search", "message.id: order-1", "-o", "json"},
		{"search", "body.json.dish: carrot", "--count"},
		{"export", "action: published"},
	} {
		if got := w.through(t, environ, args...); got.Code != exitUsage || strings.Contains(got.Out, "carrot") || !strings.Contains(got.Err, "--server-reason") {
			t.Errorf("%q without a reason: %+v", args, got)
		}
		want := w.Run(t, args...)
		if got := w.through(t, append(environ, "WATERSHIP_SERVER_REASON=night shift"), args...); got != want || want.Code != exitOK {
			t.Errorf("%q: %+v\nwant %+v", args, got, want)
		}
	}
	if got := w.through(t, environ, "search", "action: published", "--count"); got.Code != exitOK {
		t.Errorf("a count of events needs no reason: %+v", got)
	}
	var found bytes.Buffer
	for _, e := range w.Eventually(t, `event.action: audited and event.reason: "night shift" and user.name: ada`, 5) {
		found.WriteString(e.Audit.Operation + "\n")
	}
	if text := found.String(); !strings.Contains(text, "read bodies") || !strings.Contains(text, "search bodies") {
		t.Errorf("%s", text)
	}
}
