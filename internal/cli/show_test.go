package cli

import (
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/schemas"
)

func TestShowALife(t *testing.T) { bothWays(t, testShowALife) }

func testShowALife(t *testing.T, seed seeder) {
	a := aFew(t, seed)
	ofKey := func(e *schemas.Event) {
		e.EventID, e.Attempt, e.Delay, e.WaitsSince = "key", 0, 5*time.Second, e.Time
	}
	took := func(d time.Duration) func(*schemas.Event) { return func(e *schemas.Event) { e.Duration = d } }
	fixed := a.event(15, schemas.Handled, sameMessage(10), at("orders"), replayOf(a, 13), took(3*time.Millisecond), func(e *schemas.Event) { e.Attempt = 1; e.Envelope.Headers["fixed"] = true })
	a.keep(t,
		a.event(10, schemas.Published, sameMessage(10)),
		a.event(10, schemas.RetryScheduled, sameMessage(10), poisonedAt("orders", "connection refused"), ofKey),
		a.event(10, schemas.RetryScheduled, sameMessage(10), poisonedAt("orders", "refused"), took(time.Millisecond), func(e *schemas.Event) {
			e.EventID, e.Sequence, e.Attempt, e.Delay, e.Waits = "waits", e.Sequence+1, 0, time.Second, 3
		}),
		a.event(11, schemas.RetryScheduled, sameMessage(10), poisonedAt("orders", "timeout"), took(1500*time.Microsecond), func(e *schemas.Event) { e.Attempt, e.Delay = 1, 2*time.Second }),
		a.event(13, schemas.Poisoned, sameMessage(10), poisonedAt("orders", "timeout"), func(e *schemas.Event) { e.Attempt = 2; e.Failure.Stack = "main.go:3\nmain.go:\x1b[31m4" }),
		a.event(14, schemas.Replayed, sameMessage(10), at("orders"), replayOf(a, 13)),
		fixed,
		a.event(16, schemas.Discarded, sameMessage(10), at("orders"), func(e *schemas.Event) { e.Failure.Message = "never mind (me@here)" }))
	page := a.must(t, "show", "m-10")
	_, page, _ = strings.Cut(page, "timeline\n")
	wantLines(t, page, `2026-05-04 03:00:10.000 published to exchange shop, routing key order.created
		2026-05-04 03:00:10.000 +0s retry_scheduled waits at queue orders for its key, whose messages fail, again in 5s: connection refused
		2026-05-04 03:00:10.000 +0s retry_scheduled waits at queue orders, 3 times so far, again in 1s: refused
		2026-05-04 03:00:11.000 +1s retry_scheduled attempt 1 at queue orders failed after 1.5ms, again in 2s: timeout
		2026-05-04 03:00:13.000 +2s poisoned attempt 2 at queue orders: timeout
		2026-05-04 03:00:14.000 +1s replayed sent again, from what was poisoned at 2026-05-04 03:00:13.000 UTC (job job)
		2026-05-04 03:00:15.000 +1s handled attempt 1 at queue orders, took 3ms (job job)
		2026-05-04 03:00:16.000 +1s discarded never mind (me@here)

		last failure
		timeout
		type http.Status
		class server
		main.go:3
		main.go:\x1b[31m4

		headers
		n = 10 (int64)

		body (12 bytes)
		{
		"order": 10
		}

		changed by replays
		2026-05-04 03:00:15.000 watership show `+fixed.Fingerprint)
	if r := a.call(t, "show", "nobody"); r.Code != exitFailed || !strings.Contains(r.Err, `has the id "nobody"`) {
		t.Errorf("%+v", r)
	}
}

// A report that names no queue is poison at none.
func TestShowAFailureWithoutAQueue(t *testing.T) {
	bothWays(t, func(t *testing.T, seed seeder) {
		a := aFew(t, seed)
		a.keep(t, a.event(10, schemas.Poisoned, poisonedAt("", "it names no queue"), func(e *schemas.Event) { e.Attempt = 1 }))
		if page := a.must(t, "show", "m-10"); !strings.Contains(page, "attempt 1: it names no queue") {
			t.Error(page)
		}
	})
}

func TestShowAClaimedOrigin(t *testing.T) { bothWays(t, testShowAClaimedOrigin) }

func testShowAClaimedOrigin(t *testing.T, seed seeder) {
	a := aFew(t, seed)
	a.keep(t,
		a.event(10, schemas.Poisoned, poisonedAt("orders", "refused"), func(e *schemas.Event) { e.OriginClaimed = true }),
		a.event(11, schemas.Poisoned, poisonedAt("orders", "refused")))
	for id, want := range map[string]bool{"m-10": true, "m-11": false} {
		if page := a.must(t, "show", id); strings.Contains(page, "exchange and routing key as a consumer claims") != want {
			t.Errorf("%s: a claim: %v\n%s", id, !want, page)
		}
	}
}

func TestShowBodies(t *testing.T) { bothWays(t, testShowBodies) }

func testShowBodies(t *testing.T, seed seeder) {
	a := seed(t)
	for n, test := range []struct{ body, want string }{
		{`{"big":12345678901234567890,"s":"\u001b[2J"}`, "{\n\"big\": 12345678901234567890,\n\"s\": \"\\u001b[2J\"\n}"},
		{
			`<?xml version="1.0"?><a x="1"><b>text</b><c/><!-- n --><d><e>1 &amp; 2</e></d></a>`,
			"<?xml version=\"1.0\"?>\n<a x=\"1\">\n<b>text</b>\n<c/>\n<!-- n -->\n<d>\n<e>1 &amp; 2</e>\n</d>\n</a>",
		},
		{"\ufeff{\"a\":1}", "\\ufeff{\n\"a\": 1\n}"},
		{"\ufeff<a><b>text</b></a>", "\\ufeff<a>\n<b>text</b>\n</a>"},
		{"plain \x1b]0;evil\x07 text\nwith\ttabs\u202e", "plain \\x1b]0;evil\\a text\nwith tabs\\u202e"},
		{"\xff\x00\x01", "00000000 ff 00 01 |...|"},
		{"<p>not closed", "<p>not closed"},
		{"", ""},
	} {
		a.keep(t, a.event(n+1, schemas.Published, func(e *schemas.Event) { e.Envelope.Body = []byte(test.body) }))
		id := a.event(n+1, schemas.Published).EventID
		_, body, _ := strings.Cut(a.must(t, "show", id), "\nbody (")
		_, body, _ = strings.Cut(body, "\n")
		wantLines(t, body, test.want)
		if raw := a.must(t, "show", "--raw", id); raw != test.body {
			t.Errorf("--raw gives %q, want %q", raw, test.body)
		}
	}
}

func TestShowEveryHeaderType(t *testing.T) { bothWays(t, testShowEveryHeaderType) }

func testShowEveryHeaderType(t *testing.T, seed seeder) {
	a := seed(t)
	a.keep(t, a.event(1, schemas.Published, func(e *schemas.Event) {
		e.Envelope.Headers = amqp.Table{
			"a": "te\x1bxt", "b": []byte{0xff, 0}, "c": nil, "d": time.Unix(1700000000, 0), "e": amqp.Decimal{Scale: 2, Value: -5},
			"f": amqp.Table{"x": int32(1), "y": []any{true, "z"}}, "g": []any{}, "h": 0.25, "i": int64(1) << 60,
		}
	}))
	_, headers, _ := strings.Cut(a.must(t, "show", "m-1"), "headers\n")
	headers, _, _ = strings.Cut(headers, "\nbody")
	wantLines(t, headers, `a = te\x1bxt (string)
		b = ff00 (bytes, in hex)
		c = (void)
		d = 2023-11-14T22:13:20Z (timestamp)
		e = -0.05 (decimal)
		f.x = 1 (int32)
		f.y[0] = true (bool)
		f.y[1] = z (string)
		g = (empty array)
		h = 0.25 (float64)
		i = 1152921504606846976 (int64)`)
}

// An id that many messages share shows some of them, and no one's body raw.
func TestShowASharedID(t *testing.T) { bothWays(t, testShowASharedID) }

func testShowASharedID(t *testing.T, seed seeder) {
	a := seed(t)
	var events []schemas.Event
	for n := range history.MaxLives + 5 {
		events = append(events, a.event(n+1, schemas.Published, func(e *schemas.Event) { e.Envelope.Properties.MessageID = "same" }))
	}
	a.keep(t, events...)
	page := a.must(t, "show", "same")
	if got := strings.Count(page, "fingerprint "); got != history.MaxLives || !strings.Contains(page, "only the first 20 messages") {
		t.Errorf("%d messages are shown", got)
	}
	if r := a.call(t, "show", "--raw", "same"); r.Code != exitFailed || r.Out != "" {
		t.Errorf("%+v", r)
	}
}

// An event that was recorded without a fingerprint is shown for itself.
func TestShowWithoutAFingerprint(t *testing.T) { bothWays(t, testShowWithoutAFingerprint) }

func testShowWithoutAFingerprint(t *testing.T, seed seeder) {
	a := seed(t)
	for n := range 2 {
		event := a.event(n+1, schemas.Poisoned, sameMessage(1))
		event.Fingerprint = ""
		a.keep(t, event)
	}
	if out := a.must(t, "show", "m-1"); strings.Count(out, "timeline\n") != 2 || strings.Count(out, "poisoned") != 2 {
		t.Errorf("%s", out)
	}
	if out := a.must(t, "show", "--raw", a.event(1, schemas.Poisoned).EventID); out == "" {
		t.Error("no body")
	}
}
