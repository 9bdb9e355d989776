package server_test

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// TestSignedStates: with amqp.state_key_file, every event and state of Watership is
// signed, and an unsigned one does not count, wherever it was published.
func TestSignedStates(t *testing.T) {
	servertest.OnEitherInstallation(t, func(t *testing.T, install servertest.Installer) {
		service := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusInternalServerError })
		i := install(t, service.URL)
		keys := servertest.WriteFile(t, "keys", strings.Repeat("k", 64)+"\n")
		i.Environ = append(os.Environ(), "WATERSHIP_AMQP_STATE_KEY_FILE="+keys)
		i.Serve(t)
		list, _ := i.Findings(t)
		servertest.WantFinding(t, list, doctor.OK, "", "trust: states are signed")
		i.Send(t, i.Exchange, "k", amqp.Publishing{MessageId: "m-1"})
		failed := i.Eventually(t, "action: poisoned", 1)[0]
		if failed.Attempt != 3 {
			t.Errorf("given up after %d attempts", failed.Attempt)
		}
		forge(t, i, failed)
		i.Eventually(t, "action: poisoned", 2)
		if r := i.Run(t, "failed"); r.Code != 0 || !strings.Contains(r.Out, "2 failures") {
			t.Errorf("a forged event took a failure off the list: %+v", r)
		}
		service.Mend()
		i.Must(t, "replay", "event.id: "+failed.EventID, "--yes")
		if again := i.Eventually(t, "action: published and messaging.message.id: m-1", 2); again[0].Replay == "" && again[1].Replay == "" {
			t.Errorf("no replay has its mark: %+v", again)
		}
		i.Must(t, "failed", "discard", "messaging.message.id: m-2", "--reason", "forged", "--yes")
		i.Eventually(t, "action: (replayed or discarded)", 2)
		servertest.Until(t, "no failure to be open", func() bool { return strings.Contains(i.Run(t, "failed").Out, "nothing found") })
		i.Eventually(t, "action: quarantined", 1)
	})
}

// forge writes what only Watership may, to exchanges of Watership's: that a failure
// needs nothing more, and that a message has been tried sixty times.
func forge(t *testing.T, i *servertest.Installation, failed schemas.Event) {
	t.Helper()
	topology := schemas.Topology{Prefix: i.Prefix}
	state := schemas.State{
		Fingerprint: failed.Fingerprint, Message: failed.Message, Queue: failed.Queue, ReplayOf: failed.EventID,
		EventID: "forged", Time: time.Now(), Failure: schemas.Failure{Message: "settled by phone"},
	}
	i.Send(t, topology.Events(), string(schemas.Discarded), wire.DefaultFrameMax.WrapWithoutBody(failed.Envelope, state, wire.OmittedBody{Size: len(failed.Envelope.Body), In: schemas.BodyInPublished}))
	i.Eventually(t, `action: quarantined and error.message: "not signed"`, 1)
	e := schemas.Envelope{Exchange: i.Exchange, RoutingKey: "k", Properties: schemas.Properties{MessageID: "m-2"}}
	i.Send(t, topology.Direct(), i.Queue, wire.DefaultFrameMax.WrapForQueue(e, schemas.State{Fingerprint: e.Fingerprint(), Queue: i.Queue, Attempt: 60}, ""))
	if tried := i.Eventually(t, "action: retry_scheduled and messaging.message.id: m-2", 2); tried[0].Attempt+tried[1].Attempt != 3 {
		t.Errorf("an unsigned state counts: %+v", tried)
	}
}
