package subjects

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

const secretRules = `[{header: x-customer, as: customer, subject: true}, {json: customer, as: customer, subject: true}, {json: secret, as: secret},
	{pattern: mail}, {pattern: card}, {pattern: iban}, {pattern: token}]`

// planted is message n of a customer, with a secret of each kind that no other message has.
type planted struct{ n, customer int }

func (p planted) name() string { return fmt.Sprintf("Customer-%04d", p.customer) }

func (p planted) secrets() []string {
	card := fmt.Sprintf("41111100%07d", p.n)
	for digit := range 10 {
		if isLuhn(card + strconv.Itoa(digit)) {
			card += strconv.Itoa(digit)
			break
		}
	}
	account := fmt.Sprintf("37040044%010d", p.n)
	rest, _ := new(big.Int).SetString(account+"131400", 10) // DE00 behind it
	check := 98 - rest.Mod(rest, big.NewInt(97)).Int64()
	return []string{
		fmt.Sprintf("ana.%d@planted.example", p.n), card, fmt.Sprintf("DE%02d%s", check, account),
		fmt.Sprintf("Bearer planted.%dx%[1]d", p.n+100_000_000), fmt.Sprintf("planted-secret-%d", p.n),
	}
}

func isLuhn(digits string) bool {
	sum := 0
	for i := range len(digits) {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			d = d*2/10 + d*2%10
		}
		sum += d
	}
	return sum%10 == 0
}

// isPlanted finds a part of each secret that cannot be a part of anything else.
var isPlanted = regexp.MustCompile(`planted\.example|41111100\d{8}|DE\d\d37040044|planted\.\d{9}|planted-secret-|Customer-\d`)

func (p planted) envelope(exchange string) schemas.Envelope {
	s := p.secrets()
	return schemas.Envelope{
		Exchange: exchange, RoutingKey: "order." + s[0], Headers: amqp.Table{"x-customer": p.name(), "note": "for " + s[0], "n": int32(p.n)},
		Properties: schemas.Properties{MessageID: fmt.Sprint("m-", p.n), CorrelationID: "of " + s[2], ContentType: "application/json"},
		Body:       fmt.Appendf(nil, "{\"customer\": %q,\r\n \"mail\": %q, \"card\": %s, \"iban\": %q, \"note\": \"with %s\", \"secret\": %q, \"price\": 1.50}", p.name(), s[0], s[1], s[2], s[3], s[4]),
	}
}

func TestSecretsOfErasedPersons(t *testing.T) { testSecrets(t, 240) }

func TestSoakSecretsOfErasedPersons(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("long: set WATERSHIP_TEST_SOAK=1")
	}
	testSecrets(t, 10_000)
}

// testSecrets erases a quarter of the persons whom messages with secrets are about. Nothing of them can be read with
// all keys that are left: in the store, and in an export and a copy of its folder that were made before. All others
// are read and sent as they were published.
func testSecrets(t *testing.T, messages int) {
	const customers = 40
	all := make([]planted, messages)
	for n := range all {
		all[n] = planted{n, n % customers}
	}
	isErased := func(customer int) bool { return customer%4 == 1 }
	of := func(e schemas.Event) planted {
		n, err := strconv.Atoi(e.Envelope.Properties.MessageID[len("m-"):])
		must(t, err)
		return all[n]
	}

	broker, file := rabbittest.Embedded(t), systemtest.StoreFile(t)
	environ := append(keyFiles(t)[1:], "WATERSHIP_REDACT_RULES="+secretRules, subjectKeys+filepath.Join(t.TempDir(), "subjects"),
		"WATERSHIP_AMQP_URL="+broker.URL, "WATERSHIP_AMQP_MANAGEMENT_URL="+broker.ManagementURL, "WATERSHIP_SOURCE=test", "WATERSHIP_STORE_URL=sqlite:"+file)
	sys := systemtest.New(t, environ...)
	systemtest.Index(t, sys)
	conn, err := rabbit.Open(rabbit.Config{URL: broker.URL, Name: t.Name()})
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	exchange, queue, ch := rabbittest.Name(t), broker.Queue(t, nil), broker.Channel(t)
	must(t, topology.Declare(t.Context(), conn, topology.Config{Tap: []topology.Tap{{Exchange: exchange, Type: "topic"}}}))
	failures := 0
	for _, p := range all {
		e := p.envelope(exchange)
		must(t, ch.PublishWithContext(t.Context(), exchange, e.RoutingKey, false, false, e.Publishing()))
		if p.n%10 > 0 {
			continue
		}
		failures++
		with := strings.Join(p.secrets(), " ")
		failed := schemas.State{Fingerprint: e.Fingerprint(), Message: fmt.Sprint("failure ", p.n), EventID: fmt.Sprint("poisoned ", p.n), Queue: queue}.
			Failed(time.Now(), time.Second, queue, schemas.Failure{Message: "cannot charge " + with, Stack: "main.charge(" + with + ")", Group: "of " + with})
		failed.Answer = "402 " + with
		must(t, ch.PublishWithContext(t.Context(), sys.Topology().Events(), string(schemas.Poisoned), false, false, wire.DefaultFrameMax.Wrap(e, failed)))
	}
	rabbittest.Eventually(t, "all are recorded", func() bool {
		return len(systemtest.Events(t, sys, "event.action: (published or poisoned)")) == messages+failures
	})

	var export bytes.Buffer
	for _, e := range systemtest.Events(t, sys, "event.id: *") {
		export.Write(append(schemas.DocumentFormat{}.Append(nil, e), '\n'))
	}
	former := copyOf(t, filepath.Dir(file))
	ctx := access.Recording(access.NewContext(t.Context(), access.AsOperator("ada")), new(begun), "")
	left := 0
	for customer := range customers {
		if !isErased(customer) {
			left++
			continue
		}
		erased, err := operations{sys}.erase(ctx, &EraseInput{Body: Erasure{Subject{Subject: planted{customer: customer}.name()}, operation.Bounds{Reason: "asked"}}})
		if err != nil || erased.Body.Done != 1 {
			t.Fatalf("%+v, %v", erased, err)
		}
	}
	mentioned := map[string]bool{}
	for _, hash := range regexp.MustCompile(`[a-z]+_[0-9a-f]{20}`).FindAll(export.Bytes(), -1) {
		mentioned[string(hash)] = true
	}
	for _, p := range all {
		for _, secret := range p.secrets() {
			for _, hash := range sys.Redactor().Hashes(secret) {
				if mentioned[hash] {
					t.Fatalf("the hash of %s can be made of a guess", secret)
				}
			}
		}
	}
	wantUnplanted(t, filepath.Dir(file))
	wantUnplanted(t, former)
	if found := isPlanted.Find(export.Bytes()); found != nil {
		t.Errorf("the export has %s", found)
	}

	var exported []schemas.Event
	for e, err := range transfer.Read(&export) {
		must(t, err)
		exported = append(exported, e)
	}
	other := systemtest.New(t, append(slices.Clone(environ), "WATERSHIP_STORE_URL=sqlite:"+filepath.Join(former, "store.db"))...)
	for name, events := range map[string][]schemas.Event{"the store": systemtest.Events(t, sys, "event.id: *"), "an export made before": exported, "a copy made before": systemtest.Events(t, other, "event.id: *")} {
		opened, erased := 0, 0
		for _, e := range events {
			if !e.Envelope.Redacted {
				continue
			}
			p, is := of(e), false
			err := privacy.Open(t.Context(), other.Opener(), &e)
			if _, is = errors.AsType[*privacy.ErasedError](err); is != isErased(p.customer) || !is && err != nil {
				t.Fatalf("%s: message %d of %s: %v", name, p.n, p.name(), err)
			}
			if is {
				erased++
				continue
			}
			opened++
			if want := p.envelope(exchange); e.Action == schemas.Published && (!bytes.Equal(e.Envelope.Body, want.Body) || e.Envelope.RoutingKey != want.RoutingKey || e.Envelope.Headers["note"] != want.Headers["note"] || e.Envelope.Properties.CorrelationID != want.Properties.CorrelationID) {
				t.Fatalf("%s: message %d is %+v", name, p.n, e.Envelope)
			}
		}
		if opened+erased != messages+failures || erased < messages/4 {
			t.Errorf("%s: %d open, and %d are erased", name, opened, erased)
		}
	}

	replay, err := replays.Planner(t.Context(), sys, false)
	must(t, err)
	job := replayer.Job{Query: "event.action: published", Target: replayer.Target{Kind: replayer.ToQueue, Queue: queue}, Operator: "ada", Reason: "test"}
	plan, err := replay.Plan(t.Context(), job)
	must(t, err)
	if plan.Matched != messages || plan.Erased != messages*(customers-left)/customers {
		t.Errorf("the plan: %d messages, of which %d are erased", plan.Matched, plan.Erased)
	}
	job, err = replay.Create(t.Context(), plan)
	must(t, err)
	job, err = replay.Run(t.Context(), job.ID, replayer.RunOptions{})
	must(t, err)
	if job.Failed != plan.Erased || job.Erased != plan.Erased || job.Sent != messages-plan.Erased {
		t.Errorf("the job: %d sent, %d failed", job.Sent, job.Failed)
	}
	for range job.Sent {
		d, found, err := ch.Get(queue, true)
		must(t, err)
		if !found {
			t.Fatal("a message was not sent")
		}
		n, err := strconv.Atoi(d.MessageId[len("m-"):])
		must(t, err)
		if want := all[n].envelope(exchange); isErased(all[n].customer) || !bytes.Equal(d.Body, want.Body) || d.Headers["note"] != want.Headers["note"] {
			t.Fatalf("message %d was sent as %s", n, d.Body)
		}
	}
	wantUnplanted(t, filepath.Dir(file))
}

// wantUnplanted looks for secrets in files.
func wantUnplanted(t *testing.T, folder string) {
	t.Helper()
	must(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if found := isPlanted.Find(content); found != nil {
			t.Errorf("%s has %s", path, found)
		}
		return err
	}))
}
