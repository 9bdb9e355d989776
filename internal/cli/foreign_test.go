package cli

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// seen is a delivery as the service in the other language saw it.
type seen struct {
	RoutingKey string `json:"routing_key"`
	MessageID  string `json:"message_id"`
	Body       string `json:"body"`
	Tenant     string `json:"tenant"`
	Number     int    `json:"number"`
	Attempt    int    `json:"attempt"`
}

// rejecter is testdata/reject.py.
type rejecter struct {
	mu   sync.Mutex // guards seen
	seen []seen
}

func (r *rejecter) deliveries() []seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]seen(nil), r.seen...)
}

func startRejecter(t *testing.T, broker rabbittest.Broker, queue, deadLetters string) *rejecter {
	t.Helper()
	pika := os.Getenv("WATERSHIP_TEST_PIKA")
	if pika == "" {
		servertest.Missing(t, `no pika: WATERSHIP_TEST_PIKA is not set (eval "$(scripts/fixtures env)")`)
	}
	cmd := exec.Command("python3", "testdata/reject.py", broker.URL, queue, deadLetters)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+pika)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("reject.py says %q", lines.Text())
	}
	r := &rejecter{}
	servertest.ReadJSONLines(t, cmd, lines, func(one seen) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seen = append(r.seen, one)
	})
	return r
}

// TestOtherLanguage: a consumer that knows nothing of Watership rejects, and
// gets the same retries and the same poison.
func TestOtherLanguage(t *testing.T) {
	servertest.OnEitherInstallation(t, func(t *testing.T, install servertest.Installer) {
		service := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusOK })
		i := install(t, service.URL)
		serving := i.Serve(t)
		queue := i.Prefix + "-python"
		python := startRejecter(t, i.Broker, queue, schemas.Topology{Prefix: i.Prefix}.Retry())
		servertest.Bind(t, i.Broker, queue, i.Exchange, "order.#")

		e := schemas.Envelope{
			Exchange: i.Exchange, RoutingKey: "order.created", Body: []byte(`{"order": 7}`),
			Properties: schemas.Properties{MessageID: "order-7", DeliveryMode: amqp.Persistent},
			Headers:    amqp.Table{"tenant": "acme", "number": int32(7)},
		}
		if err := i.Publisher(t).Publish(t.Context(), rabbit.Message{
			Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: e.Publishing(),
		}); err != nil {
			t.Fatal(err)
		}

		poisoned := i.Eventually(t, "action: poisoned", 1)[0]
		var want []seen
		for attempt := range 3 {
			want = append(want, seen{"order.created", "order-7", `{"order": 7}`, "acme", 7, attempt})
		}
		if diff := cmp.Diff(want, python.deliveries()); diff != "" {
			t.Errorf("what the Python service got (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(e, poisoned.Envelope, servertest.SameSecond()); diff != "" {
			t.Errorf("the poisoned message is not as published (-want +got):\n%s", diff)
		}
		if poisoned.Queue != queue || poisoned.Attempt != 3 {
			t.Errorf("poisoned at queue %q, attempt %d; want %q, 3", poisoned.Queue, poisoned.Attempt, queue)
		}
		i.Eventually(t, "action: retry_scheduled", 2)
		if posts := service.Got()["order-7"]; len(posts) != 1 {
			t.Errorf("the other subscriber got the message %d times: a retry is for the queue that failed alone", len(posts))
		}
		i.Must(t, "replay", "action: poisoned", "--to-failed-queue", "--yes")
		servertest.Until(t, "the Python service to get the replay", func() bool { return len(python.deliveries()) >= 4 })
		if got := python.deliveries()[3]; got != want[0] {
			t.Errorf("the replay reached the Python service as %+v, want it as new: %+v", got, want[0])
		}
		serving.Stop(t)
	})
}
