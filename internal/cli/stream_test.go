package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

func inStream(id string, version int64) func(*schemas.Event) {
	return func(e *schemas.Event) { e.Stream = schemas.MessageStream{ID: id, Version: version, HasVersion: true} }
}

// ofMessage makes an event of the message of another event.
func ofMessage(of schemas.Event) func(*schemas.Event) {
	return func(e *schemas.Event) { e.Envelope, e.Fingerprint = of.Envelope, of.Fingerprint }
}

// unlimited is a store whose published events are kept for ever: the events of these tests
// are old.
const unlimited = "WATERSHIP_STORE_RETENTION_TRAFFIC=0"

func TestStream(t *testing.T) { bothWays(t, testStream) }

func testStream(t *testing.T, seed seeder) {
	a := seed(t, unlimited)
	stream := func(n int, version int64) schemas.Event {
		return a.event(n, schemas.Published, inStream("order-42", version))
	}
	first, second, third := stream(1, 0), stream(3, 2), stream(4, 1)
	a.keep(t, first, a.event(2, schemas.Handled, ofMessage(first), inStream("order-42", 0), at("orders")), second, third,
		a.event(5, schemas.Poisoned, ofMessage(second), inStream("order-42", 2), at("mails")),
		a.event(6, schemas.Published, inStream("order-43", 0)), stream(7, 4), stream(8, 4), stream(9, 8),
		a.event(10, schemas.Published, func(e *schemas.Event) { e.Stream.ID = "order-42" }), a.event(11, schemas.Published))
	wantLines(t, a.must(t, "stream", "order-42"), `
		VERSION TIME EXCHANGE ROUTING KEY MESSAGE STATE
		0 2026-05-04 03:00:01.000 shop order.created m-1 handled at orders
		1 2026-05-04 03:00:04.000 shop order.created m-4 published
		2 2026-05-04 03:00:03.000 shop order.created m-3 failed at mails
		4 2026-05-04 03:00:07.000 shop order.created m-7 published
		4 2026-05-04 03:00:08.000 shop order.created m-8 published
		8 2026-05-04 03:00:09.000 shop order.created m-9 published
		2026-05-04 03:00:10.000 shop order.created m-10 published
		7 messages, by version
		gap: version 3 is missing
		gap: versions 5 to 7 are missing
		double: version 4 of m-7, m-8
		1 message without a version at the end
		1 message recorded before the version before; a replay sends them as recorded`)
	if out := a.must(t, "stream", "order-42", "--limit", "2"); !strings.Contains(out, "m-4 ") || strings.Contains(out, "m-3 ") || !strings.Contains(out, "\nthe first 2 of 7 messages, by version\n") {
		t.Errorf("two messages:\n%s", out)
	}
	if r := a.call(t, "stream", "order-42", "--check"); r.Code != exitFailed || r.Err != "watership: stream \"order-42\" has 2 gaps and 1 double version\n" {
		t.Errorf("%+v", r)
	}
	if r := a.call(t, "stream", "order-43", "--check"); r.Code != exitOK || r.Err != "" || !strings.Contains(r.Out, "\n1 message, by version\n") {
		t.Errorf("%+v", r)
	}
	testStreamAsJSON(t, a)
	if out := a.must(t, "stream", "order-42", "--up-to-version", "2", "-o", "ndjson"); strings.Count(out, "\n") != 3 {
		t.Errorf("up to version 2:\n%s", out)
	}
	const none = "no message of the stream \"order-42\" is within the time and the version that were asked for"
	if r := a.call(t, "stream", "order-42", "--to", "2026-05-03"); r.Code != exitFailed || !strings.Contains(r.Err, none) {
		t.Errorf("%+v", r)
	}
}

// New messages of a stream are printed as they come, after those that are there.
func TestFollowAStream(t *testing.T) { bothWays(t, testFollowAStream) }

func testFollowAStream(t *testing.T, seed seeder) {
	a := seed(t)
	keep := func(n int, stream string) {
		a.keep(t, a.event(n, schemas.Published, inStream(stream, int64(n))), a.event(100+n, schemas.Handled, inStream(stream, int64(n)), at("orders")))
	}
	keep(1, "order-42")
	ctx, stop := context.WithCancel(t.Context())
	out, errs, done := &servertest.Sink{}, &servertest.Sink{}, make(chan int)
	go func() {
		done <- Run(ctx, terminal.Streams{In: strings.NewReader(""), Out: out, Err: errs}, []string{"stream", "order-42", "--follow", "--limit", "0"}, a.environ)
	}()
	servertest.Until(t, "the first message", func() bool { return strings.Contains(out.String(), "m-1") })
	keep(2, "order-43")
	keep(3, "order-42")
	servertest.Until(t, "a new message", func() bool { return strings.Contains(out.String(), "m-3") })
	stop()
	if code := <-done; code != exitOK || errs.String() != "" {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
	if text := out.String(); strings.Contains(text, "m-2") || strings.Count(text, "m-1") != 1 || strings.Contains(text, "m-101") {
		t.Errorf("printed\n%s", text)
	}
}

func testStreamAsJSON(t *testing.T, a seeded) {
	t.Helper()
	var got struct {
		ID, Order string
		Total     int
		Gaps      []struct{ From, To int64 }
		Doubles   []struct{ Version int64 }
		Messages  []struct {
			Version   *int64
			MessageID string `json:"message_id"`
			Queues    []struct{ Queue, State string }
		}
	}
	if err := json.Unmarshal([]byte(a.must(t, "stream", "order-42", "-o", "json")), &got); err != nil {
		t.Fatal(err)
	}
	if got.ID != "order-42" || got.Order != "version" || got.Total != 7 || len(got.Gaps) != 2 || got.Gaps[1].To != 7 || len(got.Doubles) != 1 || len(got.Messages) != 7 {
		t.Errorf("%+v", got)
	}
	if m := got.Messages[2]; *m.Version != 2 || m.MessageID != "m-3" || len(m.Queues) != 1 || m.Queues[0].State != "failed" {
		t.Errorf("%+v", m)
	}
	if lines := strings.Split(a.must(t, "stream", "order-42", "-o", "ndjson", "--limit", "3"), "\n"); len(lines) != 4 || !strings.Contains(lines[0], `"message_id":"m-1"`) {
		t.Errorf("lines: %q", lines)
	}
}

func TestStreamMistakes(t *testing.T) { bothWays(t, testStreamMistakes) }

func testStreamMistakes(t *testing.T, seed seeder) {
	a := seed(t)
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"stream"}, exitUsage, "expected one id of a stream, got 0 arguments"},
		{[]string{"stream", ""}, exitUsage, "expected one id of a stream, got an empty text"},
		{[]string{"stream", "a", "b"}, exitUsage, "expected one id of a stream, got 2 arguments"},
		{[]string{"stream", "a", "--limit", "-1"}, exitUsage, "--limit -1: expected 0 (no limit) or more"},
		{[]string{"stream", "a", "--up-to-version", "-1"}, exitUsage, "--up-to-version -1: expected 0 or more"},
		{[]string{"stream", "a", "--follow", "--check"}, exitUsage, "--follow cannot be combined with --check"},
		{[]string{"stream", "a", "--follow", "-o", "json"}, exitUsage, "--follow needs -o table or -o ndjson"},
		{[]string{"stream", "a", "--to", "yesterday noon"}, exitUsage, "yesterday noon"},
		{[]string{"stream", "nobody"}, exitFailed, `no message is of the stream "nobody": the setting streams`},
		{[]string{"stream", "replay"}, exitUsage, "expected one id of a stream, got 0 arguments"},
		{[]string{"stream", "replay", "a"}, exitUsage, "replay asks before it sends, and there is no terminal to ask"},
	} {
		if r := a.call(t, test.args...); r.Code != test.code || !strings.Contains(r.Err, test.want) || r.Out != "" {
			t.Errorf("%q: %+v, want %q", test.args, r, test.want)
		}
	}
}

// A stream of more messages than a page of the API has is shown whole.
func TestLongStream(t *testing.T) {
	t.Parallel()
	const messages = 1203
	a := newSeededServer(t, unlimited)
	var events []schemas.Event
	for n := range messages {
		events = append(events, a.event(messages-n, schemas.Published, inStream("s", int64(messages-n)), func(e *schemas.Event) { e.Sequence = int64(n + 1) }))
	}
	a.keep(t, events...)
	for limit, want := range map[int]int{0: messages, 501: 501, 3: 3} {
		lines := strings.Split(strings.TrimSpace(a.must(t, "stream", "s", "-o", "ndjson", "--limit", fmt.Sprint(limit))), "\n")
		for i, line := range lines {
			if !strings.Contains(line, fmt.Sprintf(`"version":%d,`, i+1)) {
				t.Fatalf("line %d is %s", i+1, line)
			}
		}
		if len(lines) != want {
			t.Errorf("--limit %d: %d messages, want %d", limit, len(lines), want)
		}
	}
}

// A stream is sent in the order of its published events, also if a handler's event was recorded before: it comes by
// another queue. A replay says so if its order may not be that one, and the stream does, too.
func TestStreamReplayOrder(t *testing.T) {
	t.Parallel()
	a := seedOn(servertest.Around(t, rabbittest.Embedded(t)))(t, unlimited)
	one, two := a.event(5, schemas.Published, inStream("s", 0)), a.event(6, schemas.Published, inStream("s", 1))
	handled := a.event(4, schemas.Handled, ofMessage(two), inStream("s", 1), at("orders"))
	failed := a.event(7, schemas.Poisoned, ofMessage(two), inStream("s", 1), at("mails"))
	a.keep(t, handled, one, two, failed)
	replay := []string{"stream", "replay", "s", "--to-exchange", "amq.topic", "--dry-run"}
	if out := a.must(t, replay...); !strings.HasPrefix(out, "2 messages to send, ") || !regexp.MustCompile(`(?s)such as m-5 .*such as m-6 `).MatchString(out) {
		t.Errorf("the plan is\n%s", out)
	}
	if out := a.must(t, "stream", "replay", "s", "--to-failed-queue", "--dry-run"); !strings.HasPrefix(out, "1 message to send, ") || !strings.Contains(out, "such as m-6 ") {
		t.Errorf("the plan of failures is\n%s", out)
	}
	a.keep(t, a.event(3, schemas.Handled, inStream("s", 2), at("orders"))) // of a message that no tap saw
	if r := a.call(t, replay...); r.Code != exitOK || !strings.HasPrefix(r.Out, "3 messages to send, ") || !strings.Contains(r.Err, "not every message of the stream was recorded when it was published") {
		t.Errorf("%+v", r)
	}
	if out := a.must(t, "stream", "s"); !strings.Contains(out, "\n1 message that no tap recorded, in the order of their first events\n") {
		t.Errorf("the stream is\n%s", out)
	}
}
