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
	wantRun(t, a.run(t, "replay", "*", "--yes", "--set-header", "note="+strings.Repeat("n", 200)), exitFailed,
		"not sent: message m-2, event "+large.EventID, reason, "sent 2 of 3", "1 message could not be sent")
	job := a.onlyJob(t)
	if job.State != replayer.Done || job.Sent != 2 || job.Failed != 1 || len(job.Failures) != 1 || job.Failures[0].Message != "m-2" {
		t.Errorf("the job is %s, sent %d, failed %d: %v", job.State, job.Sent, job.Failed, job.Failures)
	}
	wantRun(t, a.run(t, "jobs", "show", job.ID), 0, "sent         2", "failed       1", "message m-2, event "+large.EventID, reason)
	for i, d := range a.broker.Take(t, a.queue, 2) {
		if want := fmt.Sprint("m-", 2*i+1); d.MessageId != want {
			t.Errorf("%s arrived, want %s", d.MessageId, want)
		}
	}
}

// smallStore is the store of the tests behind a proxy that takes no request of
// more than so many bytes.
func smallStore(t *testing.T, most int64) string {
	t.Helper()
	behind, err := url.Parse(storeURL(t))
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
	i := install(t, rabbittest.NewestServer(t), newService(t, func(post, int) int { return http.StatusOK }).url)
	i.rewrite(t, storeURL(t), smallStore(t, 100_000))
	serving := i.serve(t)
	body := make([]byte, 200_000)
	_, _ = rand.Read(body)
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
	i.must(t, "publish", "--exchange", i.exchange, "--key", "k", "--message-id", "large", "--header", "tenant=acme", file)
	i.must(t, "publish", "--exchange", i.exchange, "--key", "k", "--message-id", "small", writeFile(t, "small", "{}"))
	i.eventually(t, "action: handled", 2)
	recorded := i.eventually(t, "action: published and message.id: large and headers.tenant: acme", 1)[0]
	if recorded.BodyIn != schemas.BodyInUnstorable || recorded.BodySize != len(body) || len(recorded.Envelope.Body) != 0 {
		t.Errorf("it is recorded with its body in %q, %d bytes", recorded.BodyIn, recorded.BodySize)
	}
	unstorable := schemas.Topology{Prefix: i.prefix}.Unstorable()
	aside := func() bool { return i.broker.Len(t, unstorable) == 1 }
	until(t, "the message to be in "+unstorable, aside)
	serving.stop(t)

	wantRun(t, i.run(t, "replay", "action: published", "--to-queue", i.queue, "--yes"), 0, "sent 2 of 2")
	for n, d := range i.broker.Take(t, i.queue, 2) {
		want := [...]struct {
			id   string
			body []byte
		}{{"large", body}, {"small", []byte("{}")}}[n]
		if d.MessageId != want.id || !bytes.Equal(d.Body, want.body) {
			t.Errorf("%s arrived with %d bytes, want %s with %d as they were", d.MessageId, len(d.Body), want.id, len(want.body))
		}
	}
	until(t, "it to be in "+unstorable+" again", aside)
}
