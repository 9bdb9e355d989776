package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/waiting"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// Orders wait an hour for their second attempt. An operator lists them, directly and through the API, and decides about
// each by its id.
func TestWaiting(t *testing.T) {
	t.Parallel()
	service := servertest.NewService(t, func(p servertest.Post, _ int) int {
		if p.Attempt == "1" {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})
	i := servertest.InstallEmbedded(t, service.URL)
	i.Configure(t, "{delays: [100ms, 300ms]}", "{delays: [1h]}")
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	i.Environ = append(os.Environ(), "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+tokens)
	w := withServe{i, nil, tokens}
	w.token(t, "first", access.Viewer, false)
	w.Process = i.Serve(t)
	operator := w.token(t, "ann", access.Operator, true)
	order := servertest.WriteFile(t, "order.json", `{"order": 1}`)
	w.Must(t, "publish", "--exchange", w.Exchange, "--key", "order.created", "--count", "3", order)
	w.Eventually(t, "action: retry_scheduled", 3)
	for _, args := range []string{"waiting", "waiting -o json", "waiting -o ndjson", "waiting --each", "waiting --each -o json", "waiting queue:nobody", "waiting * --since 1h", "waiting queue:"} {
		want := w.Run(t, strings.Fields(args)...)
		if got := w.through(t, operator, strings.Fields(args)...); got.Out != want.Out || got.Code != want.Code {
			t.Errorf("%s: %+v\nwant %+v", args, got, want)
		}
	}
	servertest.WantRun(t, w.Run(t, "waiting"), 0, w.Queue, "3 messages in 1 group")
	servertest.WantRun(t, w.Run(t, "waiting", "--each"), 0, "MESSAGE", "3 messages")
	for args, words := range map[string]string{
		"cancel * --yes": "--reason", "cancel --reason x --yes": "", "now * --reason x": "--yes", "postpone * --reason x --yes": "", "postpone * --reason x --yes --for 31d": "30 days",
		"postpone * --reason x --yes --until now-1d": "",
	} {
		servertest.WantRun(t, w.Run(t, append([]string{"waiting"}, strings.Fields(args)...)...), exitUsage, words)
	}
	servertest.WantRun(t, w.Run(t, "waiting", "cancel", "queue: nobody", "--reason", "x", "--yes"), exitFailed)

	delays := wire.DelaysOf(schemas.Topology{Prefix: w.Prefix}).Queue(time.Hour)
	servertest.Until(t, "the broker has as many", func() bool { return w.Broker.Len(t, delays) == 3 })
	list := w.messages(t)
	one := func(m waiting.WaitingMessage) string { return servertest.WriteFile(t, "id", m.ID) }
	servertest.WantRun(t, w.Run(t, "waiting", "cancel", "--ids", one(list[0]), "--reason", "a test order", "--yes"), 0, "1  wait for queue "+w.Queue+"\n", "cancelled 1 message\n")
	servertest.WantRun(t, w.through(t, operator, "waiting", "postpone", "--ids", one(list[1]), "--for", "0d3h", "--reason", "maintenance", "--yes"), 0, "postponed 1 message\n")
	servertest.WantRun(t, w.through(t, operator, "waiting", "now", "--ids", one(list[2]), "--reason", "it is back", "--yes"), 0, "retried 1 message\n")
	w.Eventually(t, "action: handled", 1)
	w.Eventually(t, "action: discarded", 1)
	w.Eventually(t, "action: rescheduled and event.reason: maintenance", 1)
	if left := w.messages(t); len(left) != 1 || left[0].ID != list[1].ID || left[0].Due.Sub(left[0].Since).Hours() < 2.9 {
		t.Errorf("these wait still: %+v", left)
	}
	if got := w.Run(t, "show", list[1].ID); !regexp.MustCompile(`rescheduled .*again in 3h0m0s|rescheduled .*as ann decided: maintenance`).MatchString(got.Out) {
		t.Errorf("%+v", got)
	}
}

// messages returns the waiting messages, the next due first.
func (w withServe) messages(t *testing.T) (list []waiting.WaitingMessage) {
	t.Helper()
	got := w.Run(t, "waiting", "--each", "-o", "json")
	if err := json.Unmarshal([]byte(got.Out), &list); err != nil {
		t.Fatalf("%+v: %v", got, err)
	}
	return list
}

// due is a system whose message is due before it is decided about.
type due struct{ backend }

func (due) ParseQuery(string) (kql.Node, error) { return kql.All{}, nil }

func (due) Do(_ context.Context, _ *operation.Operation, in, out any) error {
	done := &out.(*waiting.DecideOutput).Body
	if done.Matched = 1; !in.(*waiting.DecideInput).Body.DryRun {
		done.Gone = 1
	}
	return nil
}

// A decision that changes no message fails, as one that finds none.
func TestDecisionThatChangesNothing(t *testing.T) {
	var out strings.Builder
	d := waitingDecision{action: action{yes: true}, Decision: waiting.Decision{Action: waiting.Cancel}}
	d.Out = &out
	err := d.run(t.Context(), due{}, "*")
	if err == nil || err.Error() != "no message was changed" || out.String() != "cancelled 0 messages\n1 message did not wait any more\n" {
		t.Errorf("%v, %s", err, out.String())
	}
}

// Below the groups are the keys of ordered routes that stand, and the message for which each waits.
func TestKeysThatStand(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 0, 0, 0, time.Local)
	groups := []waiting.WaitingGroup{
		{Kind: history.Kind{Queue: "mails"}, Count: 1},
		{
			Kind: history.Kind{Queue: "orders"}, Count: 3, HeldKeys: 3,
			Keys: []waiting.HeldKey{{Key: "acme", MessageID: "order-7", FirstFailed: at, Due: at.Add(time.Hour)}, {Key: "other", MessageID: "order-9", FirstFailed: at, Due: at}},
		},
	}
	var out strings.Builder
	if err := (waitingPrinter{printer{Streams: terminal.Streams{Out: &out}}}).waitingGroups(groups); err != nil {
		t.Fatal(err)
	}
	_, below, _ := strings.Cut(out.String(), "4 messages in 2 groups\n")
	want := `
The later messages of 3 keys wait for one that failed:
QUEUE   KEY    WAITS FOR  FAILED FIRST         NEXT
orders  acme   order-7    2026-05-04 03:00:00  2026-05-04 04:00:00
orders  other  order-9    2026-05-04 03:00:00  2026-05-04 03:00:00
and 1 more: add --each to list every message
`
	if below != want {
		t.Errorf("%s", out.String())
	}
	out.Reset()
	if err := (waitingPrinter{printer{Streams: terminal.Streams{Out: &out}}}).waitingMessages([]waiting.WaitingMessage{{MessageID: "order-7", Key: "acme", Order: waiting.First}, {MessageID: "m"}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "KEY   ORDER") || !strings.Contains(out.String(), "acme  first") {
		t.Errorf("%s", out.String())
	}
}
