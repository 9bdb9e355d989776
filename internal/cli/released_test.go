package cli

import (
	"compress/gzip"
	"database/sql"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/tablejson"
)

// former is an installation whose state is that of a former version: its SQLite file, its tokens, and the messages in
// its queues.
type former struct {
	*servertest.Installation
	service *servertest.Service
	notices *notices
	data    string // folder of the store and the tokens
}

const (
	formerCopies = "released-copies" // the queue of a subscription
	ever         = "36500d"          // since the state was kept
	formerDelay  = time.Hour         // of the message that waits
)

// waits and parked are the queues of Watership that hold a message.
func (f former) waits() string {
	return wire.DelaysOf(schemas.Topology{Prefix: f.Prefix}).Queue(formerDelay)
}

func (f former) parked() string { return schemas.Topology{}.Parking(f.Queue) }

// newFormer has a service that refuses the messages poison-N until it is mended, and is away for those named waiting-N.
func newFormer(t *testing.T) former {
	t.Helper()
	data := t.TempDir()
	service := servertest.NewService(t, func(p servertest.Post, _ int) int {
		switch kind, _, _ := strings.Cut(p.ID, "-"); kind {
		case "poison":
			return http.StatusUnprocessableEntity
		case "waiting":
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})
	f := former{servertest.NewInstallation(t, rabbittest.Embedded(t)), service, newNotices(t), data}
	f.Prefix, f.Exchange, f.Queue = "released", "released-orders", "released-billing"
	f.OnServers(t, service.URL, "sqlite:"+filepath.Join(data, "store.db"))
	f.Configure(t, "retry: {policies: {default: {delays: [100ms, 300ms]}}}", "retry: {breaker: {messages: 0}, policies: {default: {delays: [1h]}}}", "concurrency: 32", "park: true")
	f.Environ = append(os.Environ(), "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+f.tokens(), "WATERSHIP_STORE_RETENTION_TRAFFIC=0", "WATERSHIP_STORE_RETENTION_FAILURES=0")
	f.Environ = append(f.Environ, alertSettings(f.notices.url)...)
	if _, err := f.Broker.Channel(t).QueueDeclare(formerCopies, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	f.Must(t, "setup")
	return f
}

func (f former) tokens() string { return filepath.Join(f.data, "tokens.json") }

func (f former) publish(t *testing.T, id string) {
	t.Helper()
	f.Must(t, "publish", "--exchange", f.Exchange, "--key", "order.created", "--message-id", id, servertest.WriteFile(t, "order.json", `{"order": 1}`))
}

// use leaves something of each kind: a message that waits, failures that are parked and muted, a job that has sent one of
// three messages, a subscription that has caught up, an alert that fires, and a token, whose secret it returns.
func (f former) use(t *testing.T) (secret string) {
	t.Helper()
	secret, err := access.OpenTokenFile(f.tokens()).Create(access.Token{Name: "ada", Role: access.Operator, Bodies: true})
	if err != nil {
		t.Fatal(err)
	}
	serving := f.Serve(t)
	token := f.withToken(t, secret)
	ada := func(args ...string) servertest.Result { // whose name the record has, in place of this machine's
		return withServe{Installation: f.Installation}.through(t, token, args...)
	}
	servertest.WantRun(t, ada("subscribe", "billing", "destination.name: "+f.Exchange, "--from", "now", "--to-queue", formerCopies), exitOK, "billing")
	for _, id := range []string{"handled-1", "waiting-1", "poison-1", "poison-2", "poison-3"} {
		f.publish(t, id)
	}
	f.Eventually(t, "action: poisoned", 3)
	f.Eventually(t, "action: retry_scheduled", 1)
	f.notices.await(t, "fresh", notice.Firing)
	servertest.Until(t, "the subscription to deliver", func() bool { return f.Broker.Len(t, formerCopies) == 5 })
	servertest.WantRun(t, ada("replay", "action: poisoned", "--to-failed-queue", "--yes", "--canary", "1"), exitFailed, "sent 1 of 3")
	f.Eventually(t, "action: poisoned", 4)
	group := withServe{Installation: f.Installation}.groups(t)[0].ID
	servertest.WantRun(t, ada("failed", "mute", group, "--until", "2126-01-01 00:00", "--reason", "the supplier is closed"), exitOK, "muted")
	serving.Stop(t)
	return secret
}

// withToken is the environment of commands that go through the server.
func (f former) withToken(t *testing.T, secret string) []string {
	t.Helper()
	return append(os.Environ(), "WATERSHIP_SERVER=http://"+f.Listen, "WATERSHIP_TOKEN_FILE="+servertest.WriteFile(t, "token", secret))
}

// wantNoMachine finds no USER@HOST in the records of the store, nor in its events, which are compressed.
func (f former) wantNoMachine(t *testing.T) {
	t.Helper()
	texts := string(readAll(t, filepath.Join(f.data, "store.db"))) + f.Must(t, "search", "", "--since", ever, "--limit", "0", "-o", "ndjson")
	if found := regexp.MustCompile(`"[\w.-]+@[\w.-]+"`).FindString(texts); found != "" {
		t.Fatalf("the store has %s, a user and a machine", found)
	}
}

// A kept message was in a queue when its version was stopped.
type keptMessage struct {
	Queue, Exchange, Key string
	Headers              json.RawMessage
	Message              amqp.Publishing // without the headers
}

func (f former) keep(t *testing.T, dir, secret string) {
	t.Helper()
	f.wantNoMachine(t)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var messages []keptMessage
	for queue, n := range map[string]int{f.waits(): 1, f.parked(): f.Broker.Len(t, f.parked())} {
		for _, d := range f.Broker.Take(t, queue, n) {
			message := amqp.Publishing{
				ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode, Priority: d.Priority, CorrelationId: d.CorrelationId,
				ReplyTo: d.ReplyTo, MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type, AppId: d.AppId, Body: d.Body,
			}
			messages = append(messages, keptMessage{queue, d.Exchange, d.RoutingKey, tablejson.Append(nil, d.Headers), message})
		}
	}
	queues, err := json.MarshalIndent(messages, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"queues.json": queues, "token": []byte(secret), "tokens.json": readAll(t, f.tokens()), "store.db.gz": zipped(t, readAll(t, filepath.Join(f.data, "store.db")))} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func (f former) restore(t *testing.T, dir string) (messages []keptMessage) {
	t.Helper()
	if err := json.Unmarshal(readAll(t, filepath.Join(dir, "queues.json")), &messages); err != nil {
		t.Fatal(err)
	}
	channel := f.Broker.Channel(t)
	for _, m := range messages {
		headers, err := tablejson.Parse(m.Headers)
		if err == nil {
			m.Message.Headers = headers
			if m.Queue == f.waits() {
				m.Message.Expiration = "1" // its hour has passed while nobody ran
			}
			err = channel.Publish(m.Exchange, m.Key, true, false, m.Message)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(f.tokens(), readAll(t, filepath.Join(dir, "tokens.json")), 0o600); err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(strings.NewReader(string(readAll(t, filepath.Join(dir, "store.db.gz")))))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(zip)
	if err == nil {
		err = os.WriteFile(filepath.Join(f.data, "store.db"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

// What a released version has left is taken over, and what this one leaves then, that version reads: each form has the number
// that it had. A release keeps its own state: with WATERSHIP_TEST_RELEASE=VERSION the test writes it.
func TestReleasedState(t *testing.T) {
	t.Parallel() // most of it is waiting
	if version := os.Getenv("WATERSHIP_TEST_RELEASE"); version != "" {
		f := newFormer(t)
		f.keep(t, filepath.Join("testdata/released", version), f.use(t))
	}
	releases, err := filepath.Glob("testdata/released/*")
	if err != nil || len(releases) == 0 {
		t.Fatal(releases, err)
	}
	for _, dir := range releases {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			f := newFormer(t)
			kept := f.restore(t, dir)
			before := storeVersion(t, f)
			f.Must(t, "setup")
			f.wantNoMachine(t)
			f.takesOver(t, string(readAll(t, filepath.Join(dir, "token"))))
			f.leaves(t, kept, before)
		})
	}
}

// takesOver goes on with what use has left.
func (f former) takesOver(t *testing.T, secret string) {
	t.Helper()
	servertest.WantWords(t, f.Must(t, "alerts"), "fresh", "critical")
	servertest.WantWords(t, f.Must(t, "failed", "--since", ever, "--muted"), "muted until 2126-01-01")
	f.service.Mend() // before the message that has waited is tried
	serving := f.Serve(t)
	servertest.WantWords(t, withServe{Installation: f.Installation}.through(t, f.withToken(t, secret), "subscriptions", "list").Out, "billing", formerCopies)

	job := onlyJob(t, f.Installation)
	servertest.WantRun(t, f.Run(t, "jobs", "resume", job.ID, "--yes"), exitOK, "sent 3 of 3")
	f.publish(t, "handled-2")
	if !rabbittest.Poll(rabbittest.Timeout, func() bool { return len(f.service.Got()) == 4 }) {
		t.Errorf("the service got no four messages")
	}
	for id, posts := range f.service.Got() {
		if len(posts) != 1 {
			t.Errorf("the service got %s %d times", id, len(posts))
		}
	}
	if got := slices.Sorted(maps.Keys(f.service.Got())); !slices.Equal(got, []string{"handled-2", "poison-2", "poison-3", "waiting-1"}) {
		t.Errorf("the service got %q", got)
	}
	if posts := f.service.Got()["waiting-1"]; len(posts) != 1 || posts[0].Attempt != "2" {
		t.Errorf("of the message that waited it got %+v", posts)
	}
	servertest.Until(t, "the subscription to go on", func() bool { return f.Broker.Len(t, formerCopies) == 1 })
	if d := f.Broker.Take(t, formerCopies, 1)[0]; d.MessageId != "handled-2" {
		t.Errorf("the subscription delivered %s", d.MessageId)
	}
	if got := f.Broker.Len(t, f.parked()); got != 4 {
		t.Errorf("%d messages are parked", got)
	}
	serving.Stop(t)
}

// leaves compares what this version leaves with what it found: the version of the file, and the headers of a message
// that waits.
func (f former) leaves(t *testing.T, kept []keptMessage, version int) {
	t.Helper()
	if now := storeVersion(t, f); now != version {
		t.Errorf("the store has version %d, the former Watership reads %d", now, version)
	}
	f.service.AnswerAll(http.StatusInternalServerError)
	serving := f.Serve(t)
	f.publish(t, "waiting-1")
	servertest.Until(t, "a message to wait", func() bool { return f.Broker.Len(t, f.waits()) == 1 })
	servertest.Until(t, "the record of it", func() bool { return strings.Contains(f.Must(t, "waiting"), "waiting-1") })
	serving.Stop(t)
	left := f.Broker.Take(t, f.waits(), 1)[0]
	at := slices.IndexFunc(kept, func(m keptMessage) bool { return m.Queue == f.waits() })
	headers, err := tablejson.Parse(kept[at].Headers)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(headers)), slices.Sorted(maps.Keys(left.Headers))); diff != "" {
		t.Errorf("the headers of a waiting message differ (-former +now):\n%s", diff)
	}
}

func storeVersion(t *testing.T, f former) (version int) {
	t.Helper()
	file, err := sql.Open("sqlite", filepath.Join(f.data, "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.QueryRowContext(t.Context(), "PRAGMA user_version").Scan(&version); err != nil {
		t.Fatal(err)
	}
	return version
}

func readAll(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func zipped(t *testing.T, text []byte) []byte {
	t.Helper()
	var b strings.Builder
	w := gzip.NewWriter(&b)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return []byte(b.String())
}
