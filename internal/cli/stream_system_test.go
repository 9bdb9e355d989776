package cli

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// Every event of a message has its stream, also those that travel without the body in which
// the stream is found; the stream is shown and replayed in order.
func TestStreamsOfASystem(t *testing.T) { onBoth(t, testStreamsOfASystem) }

func testStreamsOfASystem(t *testing.T, p parts) {
	service := newService(t, func(p post, before int) int {
		switch {
		case p.id == "m-1", p.id == "m-9":
			return http.StatusUnprocessableEntity
		case p.id == "m-2" && before == 0:
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})
	i := p.install(t, service.url)
	i.withStreams(t)
	i.must(t, "setup")
	i.serve(t)
	for version := range 4 {
		i.publishOrder(t, fmt.Sprint("m-", version), version, `{"order": 7}`)
	}
	i.publishOrder(t, "m-8", 0, `{"order": 8}`)
	i.publishOrder(t, "none", 0, `no JSON`)
	i.eventually(t, "action: poisoned", 1)
	i.eventually(t, "action: handled", 5)
	i.eventually(t, "action: published", 6)
	i.wantStream(t, "failed at "+i.queue)
	i.wantSameStreams(t, schemas.Published, schemas.RetryScheduled, schemas.Handled, schemas.Poisoned)

	if out := i.must(t, "stream", "replay", "order-7", "--to-failed-queue", "--dry-run"); !strings.HasPrefix(out, "1 message to send, ") {
		t.Errorf("of the failed messages:\n%s", out)
	}
	service.mend()
	i.must(t, "stream", "replay", "order-7", "--yes")
	i.eventually(t, "action: replayed", 4)
	i.eventually(t, "action: handled and replay.job: *", 4)
	replayed := i.eventually(t, "action: published and replay.job: *", 4)
	slices.SortFunc(replayed, func(a, b schemas.Event) int { return int(a.Sequence - b.Sequence) })
	for version, e := range replayed {
		if e.Stream.Version != int64(version) {
			t.Errorf("message %d of the replay has version %d", version, e.Stream.Version)
		}
	}
	i.wantStream(t, "handled at "+i.queue)

	service.answerAll(http.StatusUnprocessableEntity)
	i.publishOrder(t, "m-9", 4, `{"order": 7}`)
	i.eventually(t, "action: poisoned", 2)
	i.must(t, "failed", "discard", "stream.id: order-7", "--reason", "a test", "--yes")
	i.eventually(t, "action: discarded", 1)
	i.wantSameStreams(t, schemas.Published, schemas.RetryScheduled, schemas.Handled, schemas.Poisoned, schemas.Replayed, schemas.Discarded)
	i.must(t, "stream", "order-7", "--check")
}

// withStreams adds a rule that finds the stream in the body, and the version in a header.
func (i *installation) withStreams(t *testing.T) {
	t.Helper()
	file, err := os.OpenFile(i.config, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := fmt.Fprintf(file, "streams: [{exchange: %s, key: 'order.#', id: 'order-{body.json.order}', version: '{headers.version}'}]\n", i.exchange); err != nil {
		t.Fatal(err)
	}
}

func (i *installation) publishOrder(t *testing.T, id string, version int, body string) {
	t.Helper()
	err := i.publisher(t).Publish(t.Context(), rabbit.Message{Exchange: i.exchange, RoutingKey: "order.changed", Publishing: amqp.Publishing{
		MessageId: id, Headers: amqp.Table{"version": int32(version)}, Body: []byte(body),
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// wantStream wants the four messages of order-7 by version; the second is in a state.
func (i *installation) wantStream(t *testing.T, second string) {
	t.Helper()
	var got []string
	out := i.must(t, "stream", "order-7")
	for n, line := range strings.Split(out, "\n")[1:5] {
		fields := strings.Fields(line)
		if fields[0] != fmt.Sprint(n) || fields[5] != fmt.Sprint("m-", n) {
			t.Errorf("line %d is %q", n+1, line)
		}
		got = append(got, strings.Join(fields[6:], " "))
	}
	all := "handled at " + i.queue
	if want := []string{all, second, all, all}; !slices.Equal(got, want) {
		t.Errorf("the states are %q, want %q\n%s", got, want, out)
	}
}

// wantSameStreams wants events of these actions, and each with the stream that its message has.
func (i *installation) wantSameStreams(t *testing.T, actions ...schemas.Action) {
	t.Helper()
	want := map[string]schemas.MessageStream{
		"m-8": {ID: "order-8", HasVersion: true}, "m-9": {ID: "order-7", Version: 4, HasVersion: true}, "none": {},
	}
	for version := range int64(4) {
		want[fmt.Sprint("m-", version)] = schemas.MessageStream{ID: "order-7", Version: version, HasVersion: true}
	}
	seen := map[schemas.Action]bool{}
	for _, e := range i.search(t, "*: *") {
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
