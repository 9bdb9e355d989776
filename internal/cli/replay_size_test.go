package cli

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// TestReplayTooLarge: a message whose headers fill a frame has no room for one
// more. It is counted and named, and the others arrive.
func TestReplayTooLarge(t *testing.T) { played(t, testReplayTooLarge) }

func testReplayTooLarge(t *testing.T, a *playback) {
	before, large, after := a.event(schemas.Published, 1), a.event(schemas.Published, 2), a.event(schemas.Published, 3)
	large.Envelope.Headers = amqp.Table{}
	for n := range 4 {
		large.Envelope.Headers[fmt.Sprint("h", n)] = strings.Repeat("x", 32_740)
	}
	large.Fingerprint = large.Envelope.Fingerprint()
	a.keep(before, large, after)
	const reason = "properties and headers need a frame of "
	servertest.WantRun(t, a.Run(t, "replay", "*", "--yes", "--set-header", "note="+strings.Repeat("n", 200)), exitFailed,
		"not sent: message m-2, event "+large.EventID, reason, "sent 2 of 3", "1 message could not be sent")
	job := onlyJob(t, a.Installation)
	if job.State != replayer.Done || job.Sent != 2 || job.Failed != 1 || len(job.Failures) != 1 || job.Failures[0].Message != "m-2" {
		t.Errorf("the job is %s, sent %d, failed %d: %v", job.State, job.Sent, job.Failed, job.Failures)
	}
	servertest.WantRun(t, a.Run(t, "jobs", "show", job.ID), 0, "sent         2", "failed       1", "message m-2, event "+large.EventID, reason)
	for i, d := range a.Broker.Take(t, a.Queue, 2) {
		if want := fmt.Sprint("m-", 2*i+1); d.MessageId != want {
			t.Errorf("%s arrived, want %s", d.MessageId, want)
		}
	}
}

// smallStore is the store of the tests behind a proxy that takes no request of
// more than so many bytes.
func smallStore(t *testing.T, most int64) string {
	t.Helper()
	behind, err := url.Parse(servertest.StoreURL(t))
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(behind)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > most {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// TestReplayOfWhatTheStoreCannotTake records a message that is too large for the
// store, and replays it from the queue where its body is.
func TestReplayOfWhatTheStoreCannotTake(t *testing.T) {
	i := servertest.Install(t, rabbittest.NewestServer(t), servertest.NewService(t, func(servertest.Post, int) int { return http.StatusOK }).URL)
	i.Rewrite(t, servertest.StoreURL(t), smallStore(t, 100_000))
	serving := i.Serve(t)
	body := make([]byte, 200_000)
	_, _ = rand.Read(body)
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
	i.Must(t, "publish", "--exchange", i.Exchange, "--key", "k", "--message-id", "large", "--header", "tenant=acme", file)
	i.Must(t, "publish", "--exchange", i.Exchange, "--key", "k", "--message-id", "small", servertest.WriteFile(t, "small", "{}"))
	i.Eventually(t, "action: handled", 2)
	recorded := i.Eventually(t, "action: published and message.id: large and headers.tenant: acme", 1)[0]
	if recorded.BodyIn != schemas.BodyInUnstorable || recorded.BodySize != len(body) || len(recorded.Envelope.Body) != 0 {
		t.Errorf("it is recorded with its body in %q, %d bytes", recorded.BodyIn, recorded.BodySize)
	}
	unstorable := schemas.Topology{Prefix: i.Prefix}.Unstorable()
	aside := func() bool { return i.Broker.Len(t, unstorable) == 1 }
	servertest.Until(t, "the message to be in "+unstorable, aside)
	serving.Stop(t)

	servertest.WantRun(t, i.Run(t, "replay", "action: published", "--to-queue", i.Queue, "--yes"), 0, "sent 2 of 2")
	for n, d := range i.Broker.Take(t, i.Queue, 2) {
		want := [...]struct {
			id   string
			body []byte
		}{{"large", body}, {"small", []byte("{}")}}[n]
		if d.MessageId != want.id || !bytes.Equal(d.Body, want.body) {
			t.Errorf("%s arrived with %d bytes, want %s with %d as they were", d.MessageId, len(d.Body), want.id, len(want.body))
		}
	}
	servertest.Until(t, "it to be in "+unstorable+" again", aside)
}
