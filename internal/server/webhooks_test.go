package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// kind returns the behaviour of the service for the n-th webhook.
func kind(n int) string {
	switch n % 7 {
	case 0:
		return "never"
	case 1, 2:
		return "second"
	}
	return "first"
}

func hookID(n int) string { return fmt.Sprintf("hook-%s-%d", kind(n), n) }

// Of real webhooks some are handled at once, some at the second attempt, and some are given up, found,
// and replayed once the service is mended.
func TestRealWebhooks(t *testing.T) {
	hooks := webhooks(t)
	servertest.OnEitherInstallation(t, func(t *testing.T, install servertest.Installer) { testWebhooks(t, hooks, install) })
}

func testWebhooks(t *testing.T, hooks []githubEvent, install servertest.Installer) {
	service := servertest.NewService(t, func(p servertest.Post, before int) int {
		if strings.Contains(p.ID, "never") || strings.Contains(p.ID, "second") && before == 0 {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})
	i := install(t, service.URL)
	i.Rewrite(t, "retry: {", "retry: {breaker: {messages: 0}, ") // five failures in a row would lose no attempt
	serving := i.Serve(t)
	published := publishHooks(t, i, hooks)
	counts := map[string]int{}
	for n := range hooks {
		counts[kind(n)]++
	}
	all, never := len(hooks), counts["never"]

	i.Eventually(t, "action: published", all)
	i.Eventually(t, "action: handled", all-never)
	poisoned := i.Eventually(t, "action: poisoned", never)
	checkAttempts(t, i)
	checkStored(t, i, published)
	checkQueries(t, i, hooks, poisoned)

	service.Mend()
	checkReplay(t, i, service, published, never)
	checkShow(t, i)
	serving.Stop(t)
}

// publishHooks publishes every body with headers of several types.
func publishHooks(t *testing.T, i *servertest.Installation, hooks []githubEvent) map[string]schemas.Envelope {
	t.Helper()
	publisher := i.Publisher(t)
	published := map[string]schemas.Envelope{}
	for n, hook := range hooks {
		key := hook.event
		if hook.action != "" {
			key += "." + hook.action
		}
		e := schemas.Envelope{
			Exchange: i.Exchange, RoutingKey: key, Body: hook.body,
			Properties: schemas.Properties{
				ContentType: "application/json", DeliveryMode: amqp.Persistent, MessageID: hookID(n), Priority: 3,
				CorrelationID: fmt.Sprintf("delivery-%d", n), Type: hook.event, AppID: "hooks", Expiration: "86400000",
				Timestamp: time.Unix(1700000000+int64(n), 0),
			},
			Headers: amqp.Table{
				"event": hook.event, "number": int64(n), "small": int16(-7), "ratio": 0.25, "signed": n%2 == 0,
				"raw": []byte{0xff, 0, byte(n)}, "sent": time.Unix(1700000000, 0), "none": nil,
				"price":  amqp.Decimal{Scale: 2, Value: 1999},
				"sender": amqp.Table{"login": "octocat", "teams": []any{"a", int32(2)}},
			},
		}
		published[e.Properties.MessageID] = e
		m := rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: e.Publishing()}
		if err := publisher.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	return published
}

func checkAttempts(t *testing.T, i *servertest.Installation) {
	t.Helper()
	for _, event := range i.Search(t, "action: (handled or poisoned)") {
		want := map[string]int{"first": 1, "second": 2, "never": 3}[strings.Split(event.Envelope.Properties.MessageID, "-")[1]]
		if event.Attempt != want {
			t.Errorf("%s was %s at attempt %d, want %d", event.Envelope.Properties.MessageID, event.Action, event.Attempt, want)
		}
	}
}

// checkStored compares what the store has of each message with what was published.
func checkStored(t *testing.T, i *servertest.Installation, published map[string]schemas.Envelope) {
	t.Helper()
	for _, event := range i.Search(t, "action: (published or poisoned)") {
		want := published[event.Envelope.Properties.MessageID]
		if diff := cmp.Diff(want, event.Envelope, servertest.SameSecond()); diff != "" {
			t.Errorf("%s event of %s is not as published (-want +got):\n%s", event.Action, want.Properties.MessageID, diff)
		}
	}
}

func checkQueries(t *testing.T, i *servertest.Installation, hooks []githubEvent, poisoned []schemas.Event) {
	t.Helper()
	pushes, words := 0, 0
	for _, hook := range hooks {
		if hook.event == "push" {
			pushes++
		}
		var body struct {
			Repository struct {
				FullName string `json:"full_name"`
			}
		}
		_ = json.Unmarshal(hook.body, &body)
		if body.Repository.FullName == "Codertocat/Hello-World" {
			words++
		}
	}
	if pushes == 0 || words == 0 {
		t.Fatalf("the webhooks have %d pushes and %d bodies of the repository: the queries would show nothing", pushes, words)
	}
	i.Eventually(t, "headers.event: push and action: published", pushes)
	i.Eventually(t, "headers.sender.login: octocat and action: published", len(hooks))
	i.Eventually(t, `body.json.repository.full_name: "Codertocat/Hello-World" and action: published`, words)
	if found := i.Search(t, `body.text: "Codertocat Hello World" and action: published`); len(found) < words {
		t.Errorf("words of the body find %d messages, want at least %d", len(found), words)
	}
	i.Eventually(t, `error.message: "runner has melted" and action: poisoned`, len(poisoned))
}

func checkReplay(t *testing.T, i *servertest.Installation, service *servertest.Service, published map[string]schemas.Envelope, never int) {
	t.Helper()
	if dry := i.Must(t, "replay", "action: poisoned", "--to-failed-queue", "--dry-run"); !strings.Contains(dry, fmt.Sprintf("%d messages to send", never)) {
		t.Errorf("the dry run says\n%s", dry)
	}
	if r := i.Run(t, "replay", "action: poisoned", "--to-failed-queue"); r.Code != 2 || !strings.Contains(r.Err, "--yes") {
		t.Errorf("a replay without a terminal and without --yes: exit code %d, %s", r.Code, r.Err)
	}
	if got := service.Got(); len(got) != 0 {
		t.Errorf("something was sent before it was confirmed: %d messages", len(got))
	}
	i.Must(t, "replay", "action: poisoned", "--to-failed-queue", "--yes")
	handled := i.Eventually(t, "action: handled and watership.replay.job: *", never)
	i.Eventually(t, "action: replayed", never)
	for _, event := range handled {
		want := published[event.Envelope.Properties.MessageID]
		posts := service.Got()[want.Properties.MessageID]
		if len(posts) != 1 || !bytes.Equal(posts[0].Body, want.Body) || event.Attempt != 1 {
			t.Errorf("%s was posted %d times after the replay, at attempt %d", want.Properties.MessageID, len(posts), event.Attempt)
		}
		want.Body = event.Envelope.Body // the event leaves it out; the post had it
		if diff := cmp.Diff(want, event.Envelope, servertest.SameSecond()); diff != "" {
			t.Errorf("replayed %s is not as first published (-want +got):\n%s", want.Properties.MessageID, diff)
		}
	}
	if got := service.Got(); len(got) != never {
		t.Errorf("the replay reached the service with %d messages, want exactly the %d poisoned ones", len(got), never)
	}
	if n := len(i.Search(t, "action: published")); n != len(published) {
		t.Errorf("the replay to one queue was published anew: %d published events, want %d", n, len(published))
	}
}

func checkShow(t *testing.T, i *servertest.Installation) {
	t.Helper()
	page := i.Must(t, "show", hookID(0))
	last := 0
	for _, step := range []string{
		"timeline", "published", "retry_scheduled attempt 1", "retry_scheduled attempt 2", "poisoned        attempt 3", "replayed", "handled         attempt 1",
	} {
		at := strings.Index(page[last:], step)
		if at < 0 {
			t.Fatalf("show does not have %q where it should be:\n%s", step, page)
		}
		last += at
	}
	if !strings.Contains(page, "number = 0 (int64)") {
		t.Errorf("show does not print a header with its type:\n%s", page)
	}
}

// githubEvent is a webhook that GitHub sent.
type githubEvent struct {
	event, action string
	body          json.RawMessage
}

func webhooks(t *testing.T) []githubEvent {
	t.Helper()
	path := os.Getenv("WATERSHIP_TEST_WEBHOOKS")
	if path == "" {
		servertest.Missing(t, `no webhooks: WATERSHIP_TEST_WEBHOOKS is not set (eval "$(scripts/fixtures env)")`)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var index []struct {
		Name     string
		Examples []json.RawMessage
	}
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	var list []githubEvent
	for _, entry := range index {
		for _, body := range entry.Examples {
			var content struct{ Action string }
			_ = json.Unmarshal(body, &content) // some have no action, or no text
			list = append(list, githubEvent{entry.Name, content.Action, body})
		}
	}
	return list
}
