package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/watershipmq/watership/internal/handler/outgoing"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/replayer/shadow"
	"github.com/watershipmq/watership/schemas"
)

// newCandidate starts a candidate that answers by the order in the body.
func newCandidate(t *testing.T, answer func(order int, w http.ResponseWriter, r *http.Request)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Order int }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Errorf("the body: %v", err)
		}
		if r.Header.Get("Watership-Shadow") != "1" || r.Header.Get("Watership-Queue") == "" || r.Header.Get("Watership-Fingerprint") == "" {
			t.Errorf("the headers: %v", r.Header)
		}
		answer(body.Order, w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// keepHandled stores messages that the queue has handled, each with an outgoing message.
func (a *playback) keepHandled(n int) {
	a.t.Helper()
	for i := range n {
		published, handled := a.event(schemas.Published, i+1), a.event(schemas.Handled, i+1)
		handled.Failure = schemas.Failure{}
		mail := a.event(schemas.Published, i+1)
		mail.Envelope.RoutingKey, mail.Envelope.Body = "mail", fmt.Appendf(nil, `{"order":%d,"at":"%d"}`, i+1, i)
		mail.Envelope.Headers = map[string]any{"causation-id": published.Envelope.Properties.MessageID}
		mail.Envelope.Properties.MessageID = outgoing.ID(published.Fingerprint, a.Queue, 0, "")
		mail.Fingerprint = mail.Envelope.Fingerprint()
		a.keep(published, handled, mail)
	}
}

const listType = "application/vnd.watership.messages+json"

func (a *playback) list(w io.Writer, order int) {
	fmt.Fprintf(w, `[{"exchange": %q, "routing_key": "mail", "body": {"at": "now", "order": %d}}]`, a.Exchange, order)
}

// A candidate is compared with the record: the exit code tells whether there are differences,
// and nothing is published or recorded.
func TestReplayShadow(t *testing.T) { playedDirectly(t, testReplayShadow) }

func testReplayShadow(t *testing.T, a *playback) {
	a.keepHandled(4)
	a.keep(a.event(schemas.Poisoned, 9))
	var broken atomic.Bool
	url := newCandidate(t, func(order int, w http.ResponseWriter, _ *http.Request) {
		switch {
		case order == 9:
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		case broken.Load() && order == 2:
			w.Header().Set("Watership-Error-Type", "stock")
			http.Error(w, "no stock", http.StatusUnprocessableEntity)
			return
		case broken.Load() && order == 3:
			order = 7
		}
		w.Header().Set("Content-Type", listType)
		a.list(w, order)
	})
	compare := []string{"replay", "action: handled", "--shadow", url, "--ignore", ".body.at"}
	servertest.WantRun(t, a.Run(t, compare...), exitOK, "4 messages, 4 outcomes compared: 4 the same, 0 different")
	broken.Store(true)
	servertest.WantRun(t, a.Run(t, compare...), exitDifferent, "4 outcomes compared: 2 the same, 2 different",
		"1  queue "+a.Queue+": handled before, fails now\n        stock: service answered 422 unprocessable entity: no stock", "such as message m-2, event ",
		"1  queue "+a.Queue+": other outgoing messages\n        .body.order of "+a.Exchange+" mail\n", ".body.order: 3 → 7", "2 of 4 outcomes differ from the record")
	r := a.Run(t, append(compare, "-o", "json")...)
	var report shadow.Report
	if err := json.Unmarshal([]byte(r.Out), &report); err != nil || r.Code != exitDifferent || report.Different() != 2 || len(report.Groups) != 2 {
		t.Errorf("%v: %+v", err, r)
	}
	broken.Store(false) // any message may be in the sample
	servertest.WantRun(t, a.Run(t, append(compare, "--sample", "1%", "--limit", "1")...), exitOK, "0 different")
	servertest.WantRun(t, a.Run(t, "replay", "action: poisoned", "--shadow", url), exitDifferent, "another error", "recorded:  poisoned")
	if n := a.Broker.Len(t, a.Queue); n != 0 {
		t.Errorf("%d messages were published", n)
	}
	servertest.WantRun(t, a.Run(t, "search", "*", "--count"), 0, "13")
	servertest.WantRun(t, a.Run(t, "jobs", "list"), 0, "nothing was replayed yet")
}

// An interrupted comparison goes on with the same command, and a candidate that is away is an
// error, not a difference.
func TestReplayShadowIsResumed(t *testing.T) { playedDirectly(t, testReplayShadowIsResumed) }

func testReplayShadowIsResumed(t *testing.T, a *playback) {
	a.keepHandled(3)
	state := filepath.Join(t.TempDir(), "state.json")
	var mu sync.Mutex
	var orders []int
	url := newCandidate(t, func(order int, w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		orders = append(orders, order)
		w.WriteHeader(http.StatusNoContent)
	})
	compare := []string{"replay", "action: handled", "--state", state, "--concurrency", "1", "--shadow"}
	servertest.WantRun(t, a.Run(t, append(compare, url)...), exitOK, "3 the same", "3  handled as before; their outgoing messages could not be compared")
	servertest.WantRun(t, a.Run(t, append(compare, url)...), exitOK, "3 the same")
	if len(orders) != 3 {
		t.Errorf("it was called for %v", orders)
	}
	servertest.WantRun(t, a.Run(t, append(compare, url, "--limit", "2")...), exitFailed, "another comparison")
}

// Flags that have no effect are refused, and so is a server that would call the URL.
func TestReplayShadowMistakes(t *testing.T) {
	a := play(t, servertest.Around(t, rabbittest.Embedded(t)).Install(t, servertest.Nobody))
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--to-queue", "x"}, "--to-queue has no effect"},
		{[]string{"--yes"}, "--yes has no effect"},
		{[]string{"--transform", "x.jq"}, "--transform has no effect"},
		{[]string{"--concurrency", "0"}, "--concurrency 0"},
		{[]string{"--timeout", "0s"}, "--timeout"},
		{[]string{"--sample", "110%"}, "--sample"},
		{[]string{"--sample", "0"}, "--sample"},
		{[]string{"--ignore", "at"}, "path"},
		{[]string{"-o", "xml"}, "text or json"},
	} {
		r := a.Run(t, append([]string{"replay", "*", "--shadow", servertest.Nobody}, test.args...)...)
		if r.Code != exitUsage || !strings.Contains(r.Err, test.want) {
			t.Errorf("%q: %+v", test.args, r)
		}
	}
	servertest.WantRun(t, a.Run(t, "replay", "*", "--shadow", "ftp://x"), exitUsage, "--shadow")
	servertest.WantRun(t, a.Run(t, "replay", "*", "--dry-run", "--sample", "10%"), exitUsage, "--sample is for --shadow")
	a.Server = []string{"WATERSHIP_SERVER=http://127.0.0.1:1"}
	servertest.WantRun(t, a.Run(t, "replay", "*", "--shadow", servertest.Nobody), exitUsage, "--shadow cannot go through a server")
}
