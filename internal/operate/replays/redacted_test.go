package replays

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// planted are values that no file of the store may have.
var planted = []string{"ana@example.com", "4111111111111111", "DE89370400440532013000", "eyJhbGciOiJI.eyJzdWIiOiIx.dBjftJeZ4CVP", "C-4711-Secret"}

const redactRules = `[{pattern: mail}, {pattern: card}, {pattern: iban}, {pattern: token}, {json: customer, as: customer}, {header: x-customer, as: customer}]`

// A message is recorded without its secrets in everything that is stored about it, and a replay sends it
// as it was published. Without the keys of the originals nothing is sent.
func TestReplayOfARedactedMessage(t *testing.T) {
	t.Parallel() // most of it is waiting
	keys := filepath.Join(t.TempDir(), "keys")
	for name, text := range map[string]string{"hash": strings.Repeat("0a", 32), "originals": "a " + strings.Repeat("0b", 32)} {
		if err := os.WriteFile(keys+name, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	environ := []string{"WATERSHIP_REDACT_RULES=" + redactRules, "WATERSHIP_REDACT_HASH_KEY_FILE=" + keys + "hash"}
	broker, storeFile := rabbittest.Embedded(t), systemtest.StoreFile(t)
	environ = append(environ, "WATERSHIP_AMQP_URL="+broker.URL, "WATERSHIP_AMQP_MANAGEMENT_URL="+broker.ManagementURL, "WATERSHIP_SOURCE=test", "WATERSHIP_STORE_URL=sqlite:"+storeFile)
	settings, err := config.Load(config.Sources{Environ: append(environ, "WATERSHIP_REDACT_ORIGINAL_KEYS_FILE="+keys+"originals")})
	if err != nil {
		t.Fatal(err)
	}
	var log lockedBuffer
	sys, err := system.New(system.Config{
		Settings: settings, Name: "test", Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		OpenStore: func(ctx context.Context) (system.ClosableStore, error) {
			store, err := sqlite.Open(ctx, sqlite.Config{Path: storeFile})
			return strictStore{store}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sys.Close() })
	systemtest.Index(t, sys)
	conn, err := rabbit.Open(rabbit.Config{URL: broker.URL, Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	exchange, queue := rabbittest.Name(t), broker.Queue(t, nil)
	if err := topology.Declare(t.Context(), conn, topology.Config{Tap: []topology.Tap{{Exchange: exchange, Type: "topic"}}}); err != nil {
		t.Fatal(err)
	}
	ch := broker.Channel(t)
	must(t, ch.QueueBind(queue, "order.*.com", exchange, false, nil))
	publish := func(exchange, key string, p amqp.Publishing) {
		must(t, ch.PublishWithContext(t.Context(), exchange, key, false, false, p))
	}
	get := func() (d amqp.Delivery) {
		rabbittest.Eventually(t, "a message is in the queue", func() bool {
			got, found, err := ch.Get(queue, true)
			must(t, err)
			d = got
			return found
		})
		return d
	}

	secrets := strings.Join(planted, " ")
	body := `{"customer": "C-4711-Secret",` + "\r\n" + ` "note": "` + secrets + `", "card": 4111111111111111, "price": 1.50}`
	p := amqp.Publishing{Headers: amqp.Table{"x-customer": "C-4711-Secret", "note": "of ana@example.com", "n": int32(5)}, MessageId: "order of ana@example.com", ContentType: "application/json", Body: []byte(body)}
	publish(exchange, "order.ana@example.com", p)
	first := get()

	envelope := schemas.Envelope{Exchange: exchange, RoutingKey: "order.ana@example.com", Headers: p.Headers, Body: p.Body, Properties: schemas.Properties{MessageID: p.MessageId, ContentType: p.ContentType}}
	state := schemas.State{Fingerprint: envelope.Fingerprint(), Message: "one", EventID: "poison", Queue: queue}.Failed(time.Now(), time.Second, queue, schemas.Failure{
		Message: "cannot charge " + secrets, Stack: "main.charge(" + secrets + ")", Group: "of " + secrets,
	})
	state.Answer, state.Receiver = "402 "+secrets, "ana@example.com"
	topo := sys.Topology()
	publish(topo.Events(), string(schemas.Poisoned), wire.DefaultFrameMax.Wrap(envelope, state))
	publish(topo.Events(), "no action", amqp.Publishing{Headers: amqp.Table{"h": strings.Join(planted[:4], " ")}, Body: []byte(strings.Join(planted[:4], " "))}) // becomes a quarantined event
	large := p
	large.Type, large.MessageId = tooLarge, "large"
	publish(exchange, "order.ana@example.com", large)
	get()
	rejected := p
	rejected.Type, rejected.MessageId = refused+secrets, "rejected"
	publish(exchange, "order.ana@example.com", rejected)
	get()
	waitFor(t, sys, `event.action: (published or poisoned) or watership.quarantined_action: *`, 5)
	waitFor(t, sys, `watership.body_in: unstorable`, 1)
	kept, found, err := ch.Get(topo.Unstorable(), false)
	if secret := contains(fmt.Sprint(kept.RoutingKey, kept.Headers, string(kept.Body))); err != nil || !found || secret != "" {
		t.Fatalf("%t, %v, it has %q", found, err, secret)
	}
	must(t, kept.Nack(false, true))
	sys.Logger().Debug("a handler failed: "+secrets, "error", errors.New(secrets), "of", secrets)

	r, err := Planner(t.Context(), sys, false)
	if err != nil {
		t.Fatal(err)
	}
	job := replayer.Job{Query: "event.action: poisoned", Target: replayer.Target{Kind: replayer.ToOrigin}, Operator: "test", Reason: "test"}
	plan, err := r.Plan(t.Context(), job)
	if err != nil || plan.Matched != 1 || CheckPlan(plan, false, true) != nil || !plan.Routes[0].Unchecked {
		t.Fatalf("%+v, %v", plan, err)
	}
	created, err := r.Create(t.Context(), plan)
	if err == nil {
		created, err = r.Run(t.Context(), created.ID, replayer.RunOptions{})
	}
	if err != nil || created.Sent != 1 {
		t.Fatalf("%+v, %v", created, err)
	}
	again := get()
	if string(again.Body) != body || again.RoutingKey != first.RoutingKey || again.MessageId != p.MessageId || again.Headers["x-customer"] != p.Headers["x-customer"] || again.Headers["n"] != p.Headers["n"] {
		t.Errorf("the replay sent %s %+v, %s", again.RoutingKey, again.Headers, again.Body)
	}
	waitFor(t, sys, `event.action: replayed`, 1)
	hash := sys.Redactor().Hashes("C-4711-Secret")[0]
	if found := systemtest.Events(t, sys, `headers.x-customer: "`+hash+`" and body.json.customer: "`+hash+`"`); len(found) == 0 {
		t.Errorf("nothing is found by %s", hash)
	}

	for name, query := range map[string]string{"large": "watership.body_in: unstorable", "rejected": "watership.quarantined_action: published"} {
		job := job
		job.Query = query
		plan, err := r.Plan(t.Context(), job)
		if err != nil || plan.Matched != 1 {
			t.Fatalf("%s: %+v, %v", name, plan, err)
		}
		if created, err = r.Create(t.Context(), plan); err == nil {
			created, err = r.Run(t.Context(), created.ID, replayer.RunOptions{})
		}
		if err != nil || created.Sent != 1 {
			t.Fatalf("%s: %+v, %v", name, created, err)
		}
		if d := get(); d.MessageId != name || string(d.Body) != body || d.RoutingKey != first.RoutingKey || d.Headers["x-customer"] != p.Headers["x-customer"] {
			t.Errorf("%s: %s %+v, %s", name, d.RoutingKey, d.Headers, d.Body)
		}
	}

	refuse := systemtest.New(t, environ...)
	r, err = Planner(t.Context(), refuse, true)
	if err != nil {
		t.Fatal(err)
	}
	var redacted *privacy.RedactedError
	job.Again = true
	if plan, err := r.Plan(t.Context(), job); !errors.As(err, &redacted) {
		t.Errorf("without keys it is planned: %+v, %v", plan, err)
	}
	wantNoSecrets(t, filepath.Dir(storeFile))
	for _, secret := range planted[:4] { // which patterns find
		if text := log.String(); strings.Contains(text, secret) || !strings.Contains(text, "a handler failed") {
			t.Errorf("the log has %s: %s", secret, text)
		}
	}
	for _, e := range systemtest.Events(t, sys, "event.id: *") {
		if text := string(schemas.DocumentFormat{}.Append(nil, e)); contains(text) != "" {
			t.Errorf("a document has %q: %s", contains(text), text)
		}
	}
}

// Types of messages whose documents strictStore does not take.
const tooLarge, refused = "too-large", "refused "

// strictStore refuses documents, also with a reason that quotes them.
type strictStore struct{ *sqlite.Store }

func (s strictStore) Create(ctx context.Context, documents []schemas.Document) ([]eventstore.Result, error) {
	results := make([]eventstore.Result, len(documents))
	var accepted []schemas.Document
	var places []int
	for i, document := range documents {
		e, err := schemas.ParseDocument(document.Source)
		switch {
		case err == nil && e.Action == schemas.Published && e.Envelope.Properties.Type == tooLarge && e.BodyIn == schemas.BodyHere:
			results[i] = eventstore.Result{Status: eventstore.TooLarge, Reason: "too large"}
		case err == nil && e.Action == schemas.Published && strings.HasPrefix(e.Envelope.Properties.Type, refused):
			results[i] = eventstore.Result{Status: eventstore.Refused, Reason: "it has " + string(document.Source[:min(len(document.Source), 4096)])}
		default:
			accepted, places = append(accepted, document), append(places, i)
		}
	}
	if len(accepted) == 0 {
		return results, nil
	}
	created, err := s.Store.Create(ctx, accepted)
	for i, result := range created {
		results[places[i]] = result
	}
	return results, err
}

type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func contains(text string) string {
	for _, secret := range planted {
		if strings.Contains(text, secret) {
			return secret
		}
	}
	return ""
}

func wantNoSecrets(t *testing.T, folder string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		for _, secret := range planted {
			if at := bytes.Index(content, []byte(secret)); at >= 0 {
				t.Errorf("%s has %q in %q", path, secret, content[max(0, at-200):min(len(content), at+100)])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func waitFor(t *testing.T, sys *system.System, query string, n int) {
	t.Helper()
	rabbittest.Eventually(t, query, func() bool { return len(systemtest.Events(t, sys, query)) >= n })
}
