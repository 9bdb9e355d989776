package subjects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operate/transfer"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
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

const subjectRules = `[{header: x-customer, as: customer, subject: true}, {json: customer.id, as: customer, subject: true}, {json: secret, as: secret}, {pattern: mail}]`

// keyFiles returns the settings of rules that name subjects.
func keyFiles(t *testing.T) []string {
	t.Helper()
	folder := t.TempDir()
	environ := []string{"WATERSHIP_REDACT_RULES=" + subjectRules}
	for name, text := range map[string]string{"HASH_KEY": strings.Repeat("0a", 32), "ORIGINAL_KEYS": "a " + strings.Repeat("0b", 32)} {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		environ = append(environ, "WATERSHIP_REDACT_"+name+"_FILE="+path)
	}
	return environ
}

// customers are the subjects of the tests, with a secret of each.
var customers = []string{"C-4711", "C-4712", "C-4713"}

func secretOf(customer string) string { return "secret-of-" + customer }

func bodyOf(customer string) string {
	return fmt.Sprintf("{\"customer\": {\"id\": %q},\r\n \"secret\": %q, \"note\": \"for %s@example.com, %s\", \"price\": 1.50}", customer, secretOf(customer), customer, secretOf(customer))
}

// Nothing of an erased person can be had with all keys that are left, and the messages of others are sent as they
// were published.
func TestErase(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		file := systemtest.StoreFile(t)
		testErase(t, "sqlite:"+file, filepath.Dir(file))
	})
	t.Run("SQLite with keys elsewhere", func(t *testing.T) {
		file := systemtest.StoreFile(t)
		testErase(t, "sqlite:"+file, filepath.Dir(file), subjectKeys+filepath.Join(t.TempDir(), "subjects"))
	})
	t.Run("Elasticsearch", func(t *testing.T) {
		url := os.Getenv("WATERSHIP_TEST_STORE_URL")
		if url == "" {
			t.Skip("WATERSHIP_TEST_STORE_URL is not set")
		}
		stream := fmt.Sprint("test-erase-", time.Now().UnixNano())
		t.Cleanup(func() { remove(t, url, stream) })
		testErase(t, url, "", "WATERSHIP_STORE_STREAM="+stream)
	})
}

// remove works at the end of a test, when its context is done.
func remove(t *testing.T, url, stream string) {
	t.Helper()
	for _, path := range []string{"/_data_stream/" + stream + "-*", "/" + stream + ".subjects," + stream + ".records," + stream + ".jobs?ignore_unavailable=true"} {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodDelete, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
}

const subjectKeys = "WATERSHIP_REDACT_SUBJECT_KEYS_FILE="

func testErase(t *testing.T, storeURL, folder string, more ...string) {
	broker := rabbittest.Embedded(t)
	environ := slices.Concat(keyFiles(t), more, []string{
		"WATERSHIP_AMQP_URL=" + broker.URL, "WATERSHIP_AMQP_MANAGEMENT_URL=" + broker.ManagementURL, "WATERSHIP_SOURCE=test", "WATERSHIP_STORE_URL=" + storeURL,
	})
	sys := systemtest.New(t, environ...)
	store, err := sys.Store(t.Context())
	must(t, err)
	must(t, store.Install(t.Context()))
	systemtest.Index(t, sys)
	conn, err := rabbit.Open(rabbit.Config{URL: broker.URL, Name: t.Name()})
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	exchange, queue := rabbittest.Name(t), broker.Queue(t, nil)
	must(t, topology.Declare(t.Context(), conn, topology.Config{Tap: []topology.Tap{{Exchange: exchange, Type: "topic"}}}))
	ch := broker.Channel(t)
	for _, customer := range customers {
		publish(t, ch, sys, exchange, queue, customer)
	}
	eventually(t, sys, "event.action: (published or poisoned or retry_scheduled)", 3*len(customers))
	var export bytes.Buffer
	events := systemtest.Events(t, sys, "event.id: *")
	for _, e := range events {
		export.Write(append(schemas.DocumentFormat{}.Append(nil, e), '\n'))
	}
	for _, customer := range customers {
		if strings.Contains(export.String(), customer) {
			t.Errorf("the export has %s", customer)
		}
	}

	var audited begun
	ctx := access.Recording(access.NewContext(t.Context(), access.AsOperator("ada")), &audited, "")
	o := operations{sys}
	erased := customers[1]
	named := Subject{Subject: erased}
	before, err := o.find(ctx, &FindInput{Body: named})
	if err != nil || before.Body.Keys != 1 || before.Body.Events != 3 || before.Body.Messages != 1 || before.Body.Waiting[queue] != 1 {
		t.Fatalf("%+v, %v", before, err)
	}
	if _, err := o.erase(ctx, &EraseInput{Body: Erasure{Subject: named}}); err == nil {
		t.Error("it is erased without a reason")
	}
	dry, err := o.erase(ctx, &EraseInput{Body: Erasure{named, operation.Bounds{DryRun: true}}})
	if err != nil || dry.Body.Matched != 1 || dry.Body.Done != 0 {
		t.Fatalf("%+v, %v", dry, err)
	}
	wantOpen(t, sys, events, "")
	audited.err = errors.New("away")
	if _, err := o.erase(ctx, &EraseInput{Body: Erasure{named, operation.Bounds{Reason: "asked"}}}); err == nil {
		t.Error("it is erased without a record")
	}
	wantOpen(t, sys, events, "")
	audited.err = nil
	former := copyOf(t, folder)
	done, err := o.erase(ctx, &EraseInput{Body: Erasure{named, operation.Bounds{Reason: "asked"}}})
	if err != nil || done.Body.Matched != 1 || done.Body.Done != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	if want := (access.Action{Name: "begin to erase subject", Object: before.Body.Hashes[0], Reason: "asked"}); !slices.Equal(audited.actions, []access.Action{want}) {
		t.Errorf("recorded %+v", audited.actions)
	}
	again, err := o.erase(ctx, &EraseInput{Body: Erasure{Subject{Subject: before.Body.Hashes[0]}, operation.Bounds{Reason: "asked"}}})
	if err != nil || again.Body.Matched != 0 || again.Body.Done != 0 || again.Body.Events != 3 {
		t.Fatalf("%+v, %v", again, err)
	}

	// An export made before, and another process.
	imported := transfer.Import{Store: store, Format: sys.DocumentFormat(), Progress: func(int) {}}
	if err := imported.Run(t.Context(), bytes.NewReader(export.Bytes())); err != nil || imported.Refused > 0 {
		t.Errorf("%+v, %v", imported, err)
	}
	var parsed []schemas.Event
	for e, err := range transfer.Read(&export) {
		must(t, err)
		parsed = append(parsed, e)
	}
	for _, opener := range []*system.System{sys, systemtest.New(t, environ...)} {
		wantOpen(t, opener, parsed, erased)
		wantOpen(t, opener, systemtest.Events(t, sys, "event.id: *"), erased)
	}
	if folder != "" {
		wantNothing(t, folder)
		wantNothing(t, former)
		testFormer(t, former, environ, erased)
	}

	r, err := replays.Planner(t.Context(), sys, false)
	must(t, err)
	plan, err := r.Plan(t.Context(), replayer.Job{Query: "event.action: poisoned", Target: replayer.Target{Kind: replayer.ToFailedQueue}, Operator: "ada", Reason: "test"})
	must(t, err)
	job, err := r.Create(t.Context(), plan)
	must(t, err)
	job, err = r.Run(t.Context(), job.ID, replayer.RunOptions{})
	if err != nil || job.Sent != 2 || job.Failed != 1 || job.Failures[0].Cause != replayer.SubjectErased {
		t.Fatalf("%+v, %v", job, err)
	}
	sent := map[string]bool{}
	for range job.Sent {
		rabbittest.Eventually(t, "a replay arrives", func() bool {
			d, found, err := ch.Get(queue, true)
			must(t, err)
			sent[string(d.Body)] = sent[string(d.Body)] || found
			return found
		})
	}
	if len(sent) != 2 || !sent[bodyOf(customers[0])] || !sent[bodyOf(customers[2])] {
		t.Errorf("the replay sent %v", sent)
	}
}

// copyOf copies a folder.
func copyOf(t *testing.T, folder string) string {
	t.Helper()
	if folder == "" {
		return ""
	}
	former := filepath.Join(t.TempDir(), "former")
	must(t, os.CopyFS(former, os.DirFS(folder)))
	return former
}

// testFormer opens the originals in a copy of the folder of the store that was made before an erasure, with all keys
// that are left. If the keys of subjects are elsewhere, or are not copied, none of an erased person opens. A copy with
// them has what it needs.
func testFormer(t *testing.T, former string, environ []string, erased string) {
	t.Helper()
	environ = append(slices.Clone(environ), "WATERSHIP_STORE_URL=sqlite:"+filepath.Join(former, "store.db"))
	copied := filepath.Join(former, "store.db.subjects")
	if _, err := os.Stat(copied); err == nil {
		sys := systemtest.New(t, environ...)
		wantOpen(t, sys, systemtest.Events(t, sys, "event.id: *"), "")
		must(t, os.Remove(copied))
		sys = systemtest.New(t, environ...)
		for _, e := range systemtest.Events(t, sys, "event.id: *") {
			isRedacted := e.Envelope.Redacted
			if err := privacy.Open(t.Context(), sys.Opener(), &e); isRedacted && (err == nil || !e.Envelope.Redacted) {
				t.Errorf("without keys of subjects event %s opens", e.EventID)
			}
		}
		return
	}
	sys := systemtest.New(t, environ...)
	wantOpen(t, sys, systemtest.Events(t, sys, "event.id: *"), erased)
}

// begun keeps what is recorded before an action, unless it fails.
type begun struct {
	actions []access.Action
	err     error
}

func (b *begun) Record(_ context.Context, r access.Record) error {
	if b.err == nil {
		b.actions = append(b.actions, r.Action)
	}
	return b.err
}

func (b *begun) Ready() error { return nil }

// publish publishes a message about a customer, and the events of its failures: it waits, and is given up.
func publish(t *testing.T, ch *amqp.Channel, sys *system.System, exchange, queue, customer string) {
	t.Helper()
	p := amqp.Publishing{Headers: amqp.Table{"x-customer": customer}, MessageId: "order-" + customer[2:], ContentType: "application/json", Body: []byte(bodyOf(customer))}
	must(t, ch.PublishWithContext(t.Context(), exchange, "order.created", false, false, p))
	envelope := schemas.Envelope{Exchange: exchange, RoutingKey: "order.created", Headers: p.Headers, Body: p.Body, Properties: schemas.Properties{MessageID: p.MessageId, ContentType: p.ContentType}}
	failure := schemas.Failure{Message: "cannot charge " + customer + "@example.com"}
	given := schemas.State{Fingerprint: envelope.Fingerprint(), Message: "given up " + customer[2:], EventID: "poisoned " + customer[2:], Queue: queue}.Failed(time.Now(), time.Second, queue, failure)
	waits := schemas.State{Fingerprint: envelope.Fingerprint(), Message: "waits " + customer[2:], EventID: "waits " + customer[2:], Queue: queue}.Failed(time.Now(), time.Second, queue, failure)
	waits.Delay = time.Hour
	for action, state := range map[schemas.Action]schemas.State{schemas.Poisoned: given, schemas.RetryScheduled: waits} {
		must(t, ch.PublishWithContext(t.Context(), sys.Topology().Events(), string(action), false, false, wire.DefaultFrameMax.Wrap(envelope, state)))
	}
}

// wantOpen opens the originals of all events but those of one customer.
func wantOpen(t *testing.T, sys *system.System, events []schemas.Event, erased string) {
	t.Helper()
	opened := map[string]int{}
	for _, e := range events {
		if !e.Envelope.Redacted {
			continue
		}
		err := privacy.Open(t.Context(), sys.Opener(), &e)
		if _, is := errors.AsType[*privacy.ErasedError](err); is {
			opened[""]++
			continue
		}
		must(t, err)
		opened[e.Envelope.Headers["x-customer"].(string)]++
	}
	for _, customer := range customers {
		want := 3
		if customer == erased {
			want = 0
		}
		if opened[customer] != want {
			t.Errorf("%d originals of %s open, want %d", opened[customer], customer, want)
		}
	}
	if (opened[""] > 0) != (erased != "") {
		t.Errorf("%d are erased", opened[""])
	}
}

// wantNothing looks for the values of customers in files.
func wantNothing(t *testing.T, folder string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		for _, customer := range customers {
			if bytes.Contains(content, []byte(customer)) {
				t.Errorf("%s has %s", path, customer)
			}
		}
		return err
	})
	must(t, err)
}

func eventually(t *testing.T, sys *system.System, query string, n int) {
	t.Helper()
	rabbittest.Eventually(t, query, func() bool { return len(systemtest.Events(t, sys, query)) >= n })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
