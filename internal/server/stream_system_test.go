package server_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// Every event of a message has its stream, also those that travel without the body in which
// the stream is found; the stream is shown and replayed in order.
func TestStreamsOfASystem(t *testing.T) { servertest.OnEither(t, testStreamsOfASystem) }

func testStreamsOfASystem(t *testing.T, p servertest.Parts) {
	service := servertest.NewService(t, func(p servertest.Post, before int) int {
		switch {
		case p.ID == "m-1", p.ID == "m-9":
			return http.StatusUnprocessableEntity
		case p.ID == "m-2" && before == 0:
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})
	i := p.Install(t, service.URL)
	withStreams(t, i)
	i.Must(t, "setup")
	i.Serve(t)
	for version := range 4 {
		publishOrder(t, i, fmt.Sprint("m-", version), version, `{"order": 7}`)
	}
	publishOrder(t, i, "m-8", 0, `{"order": 8}`)
	publishOrder(t, i, "none", 0, `no JSON`)
	i.Eventually(t, "action: poisoned", 1)
	i.Eventually(t, "action: handled", 5)
	i.Eventually(t, "action: published", 6)
	wantStream(t, i, "failed at "+i.Queue)
	wantSameStreams(t, i, schemas.Published, schemas.RetryScheduled, schemas.Handled, schemas.Poisoned)

	if out := i.Must(t, "stream", "replay", "order-7", "--to-failed-queue", "--dry-run"); !strings.HasPrefix(out, "1 message to send, ") {
		t.Errorf("of the failed messages:\n%s", out)
	}
	service.Mend()
	i.Must(t, "stream", "replay", "order-7", "--yes")
	i.Eventually(t, "action: replayed", 4)
	i.Eventually(t, "action: handled and replay.job: *", 4)
	replayed := i.Eventually(t, "action: published and replay.job: *", 4)
	slices.SortFunc(replayed, func(a, b schemas.Event) int { return int(a.Sequence - b.Sequence) })
	for version, e := range replayed {
		if e.Stream.Version != int64(version) {
			t.Errorf("message %d of the replay has version %d", version, e.Stream.Version)
		}
	}
	wantStream(t, i, "handled at "+i.Queue)

	service.AnswerAll(http.StatusUnprocessableEntity)
	publishOrder(t, i, "m-9", 4, `{"order": 7}`)
	i.Eventually(t, "action: poisoned", 2)
	i.Must(t, "failed", "discard", "stream.id: order-7", "--reason", "a test", "--yes")
	i.Eventually(t, "action: discarded", 1)
	wantSameStreams(t, i, schemas.Published, schemas.RetryScheduled, schemas.Handled, schemas.Poisoned, schemas.Replayed, schemas.Discarded)
	i.Must(t, "stream", "order-7", "--check")
}

// withStreams adds a rule that finds the stream in the body, and the version in a header.
func withStreams(t *testing.T, i *servertest.Installation) {
	t.Helper()
	file, err := os.OpenFile(i.Config, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := fmt.Fprintf(file, "streams: [{exchange: %s, key: 'order.#', id: 'order-{body.json.order}', version: '{headers.version}'}]\n", i.Exchange); err != nil {
		t.Fatal(err)
	}
}

func publishOrder(t *testing.T, i *servertest.Installation, id string, version int, body string) {
	t.Helper()
	err := i.Publisher(t).Publish(t.Context(), rabbit.Message{Exchange: i.Exchange, RoutingKey: "order.changed", Publishing: amqp.Publishing{
		MessageId: id, Headers: amqp.Table{"version": int32(version)}, Body: []byte(body),
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// wantStream wants the four messages of order-7 by version; the second is in a state.
func wantStream(t *testing.T, i *servertest.Installation, second string) {
	t.Helper()
	var got []string
	out := i.Must(t, "stream", "order-7")
	for n, line := range strings.Split(out, "\n")[1:5] {
		fields := strings.Fields(line)
		if fields[0] != fmt.Sprint(n) || fields[5] != fmt.Sprint("m-", n) {
			t.Errorf("line %d is %q", n+1, line)
		}
		got = append(got, strings.Join(fields[6:], " "))
	}
	all := "handled at " + i.Queue
	if want := []string{all, second, all, all}; !slices.Equal(got, want) {
		t.Errorf("the states are %q, want %q\n%s", got, want, out)
	}
}

// wantSameStreams wants events of these actions, and each with the stream that its message has.
func wantSameStreams(t *testing.T, i *servertest.Installation, actions ...schemas.Action) {
	t.Helper()
	want := map[string]schemas.MessageStream{
		"m-8": {ID: "order-8", HasVersion: true}, "m-9": {ID: "order-7", Version: 4, HasVersion: true}, "none": {},
	}
	for version := range int64(4) {
		want[fmt.Sprint("m-", version)] = schemas.MessageStream{ID: "order-7", Version: version, HasVersion: true}
	}
	seen := map[schemas.Action]bool{}
	for _, e := range i.Search(t, "*: *") {
		stream, ofTest := want[e.Envelope.Properties.MessageID]
		if !ofTest {
			continue
		}
		seen[e.Action] = true
		if e.Stream != stream {
			t.Errorf("%s of %s has stream %+v, want %+v", e.Action, e.Envelope.Properties.MessageID, e.Stream, stream)
		}
	}
	for _, action := range actions {
		if !seen[action] {
			t.Errorf("there is no event %s", action)
		}
	}
}
