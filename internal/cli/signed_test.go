package cli

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// TestSignedStates: with amqp.state_key_file, every event and state of Watership is
// signed, and an unsigned one does not count, wherever it was published.
func TestSignedStates(t *testing.T) {
	everywhere(t, func(t *testing.T, install installer) {
		service := newService(t, func(post, int) int { return http.StatusInternalServerError })
		i := install(t, service.url)
		keys := writeFile(t, "keys", strings.Repeat("k", 64)+"\n")
		i.environ = append(os.Environ(), "WATERSHIP_AMQP_STATE_KEY_FILE="+keys)
		i.serve(t)
		i.send(t, i.exchange, "k", amqp.Publishing{MessageId: "m-1"})
		failed := i.eventually(t, "action: poisoned", 1)[0]
		if failed.Attempt != 3 {
			t.Errorf("given up after %d attempts", failed.Attempt)
		}
		i.forge(t, failed)
		i.eventually(t, "action: poisoned", 2)
		if r := i.run(t, "failed"); r.code != exitOK || !strings.Contains(r.out, "2 failures") {
			t.Errorf("a forged event took a failure off the list: %+v", r)
		}
		service.mend()
		i.must(t, "replay", "event.id: "+failed.EventID, "--yes")
		if again := i.eventually(t, "action: published and messaging.message.id: m-1", 2); again[0].Replay == "" && again[1].Replay == "" {
			t.Errorf("no replay has its mark: %+v", again)
		}
		i.must(t, "failed", "discard", "messaging.message.id: m-2", "--reason", "forged", "--yes")
		i.eventually(t, "action: (replayed or discarded)", 2)
		until(t, "no failure to be open", func() bool { return strings.Contains(i.run(t, "failed").out, "nothing found") })
		i.eventually(t, "action: quarantined", 1)
	})
}

// forge writes what only Watership may, to exchanges of Watership's: that a failure
// needs nothing more, and that a message has been tried sixty times.
func (i *installation) forge(t *testing.T, failed schemas.Event) {
	t.Helper()
	topology := schemas.Topology{Prefix: i.prefix}
	state := schemas.State{
		Fingerprint: failed.Fingerprint, Message: failed.Message, Queue: failed.Queue, ReplayOf: failed.EventID,
		EventID: "forged", Time: time.Now(), Failure: schemas.Failure{Message: "settled by phone"},
	}
	i.send(t, topology.Events(), string(schemas.Discarded), schemas.DefaultFrameMax.WrapWithoutBody(failed.Envelope, state, schemas.OmittedBody{Size: len(failed.Envelope.Body), In: schemas.BodyInPublished}))
	i.eventually(t, `action: quarantined and error.message: "not signed"`, 1)
	e := schemas.Envelope{Exchange: i.exchange, RoutingKey: "k", Properties: schemas.Properties{MessageID: "m-2"}}
	i.send(t, topology.Direct(), i.queue, schemas.DefaultFrameMax.WrapForQueue(e, schemas.State{Fingerprint: e.Fingerprint(), Queue: i.queue, Attempt: 60}, ""))
	if tried := i.eventually(t, "action: retry_scheduled and messaging.message.id: m-2", 2); tried[0].Attempt+tried[1].Attempt != 3 {
		t.Errorf("an unsigned state counts: %+v", tried)
	}
}

// send publishes a message, and waits until the broker has it.
func (i *installation) send(t *testing.T, exchange, key string, p amqp.Publishing) {
	t.Helper()
	if err := i.publisher(t).Publish(t.Context(), rabbit.Message{Exchange: exchange, RoutingKey: key, Publishing: p}); err != nil {
		t.Fatal(err)
	}
}

// A file without a key of 32 bytes is refused, and no error shows what is in it.
func TestStateKeysThatAreNone(t *testing.T) {
	for text, want := range map[string]string{"": "there is no key", "s3cret\n": "line 1 has 6 bytes: expected a key of at least 32"} {
		file := writeFile(t, "keys", text)
		r := call(t.Context(), strings.NewReader(""), []string{"WATERSHIP_AMQP_STATE_KEY_FILE=" + file}, "doctor")
		if r.code != exitUsage || !strings.Contains(r.err, "amqp.state_key_file: "+file+": "+want) || strings.Contains(r.err, "s3cret") {
			t.Errorf("%q: %+v", text, r)
		}
	}
}
