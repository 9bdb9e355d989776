package wire

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/internal/wire/wiretest"
	"github.com/watershipmq/watership/schemas"
)

// randomState returns a state as Watership writes it.
func randomState(random *rand.Rand) schemas.State {
	text := func(most int) string { return strings.Repeat(string(rune('a'+random.IntN(26))), random.IntN(most+1)) }
	at := func() time.Time {
		if random.IntN(3) == 0 {
			return time.Time{}
		}
		return time.Unix(random.Int64N(4e9), random.Int64N(1e9)).UTC()
	}
	s := schemas.State{
		Version: header.Version, Fingerprint: "v1:" + text(64), Message: text(longestName), Queue: text(longestName), Attempt: random.IntN(100),
		FirstFailed: at(), Waits: random.IntN(100), WaitsSince: at(), MissingSince: at(), NotBefore: at(), Sent: at(), Started: at(), Elapsed: time.Duration(random.Int64N(1e6)) * time.Millisecond, Undecided: random.IntN(2) == 1, Deliveries: random.IntN(100), Suspect: random.IntN(2) == 1, Route: random.IntN(2) == 1, Park: random.IntN(2) == 1, EventID: text(longestID), Time: at(),
		Delay: time.Duration(random.Int64N(1e6)) * time.Millisecond, Duration: time.Duration(random.Int64N(1e12)), Parent: text(67),
		Replay: text(longestJob), ReplayOf: text(longestID), Trace: fmt.Sprintf("00-%016x%016x-%016x-01", random.Uint64(), random.Uint64(), random.Uint64()),
		Failure: schemas.Failure{Message: text(errorBudget), Type: text(errorBudget / 4), Class: text(errorBudget / 4), Rule: text(errorBudget / 4), Stack: text(stackBudget)},
	}
	s.Subscription.Name, s.Subscription.Position, s.Subscription.Action = text(longestName), text(longestID), schemas.Published
	s.Subscription.ByPriority = random.IntN(2) == 1
	for range random.IntN(mostAttempts + 1) {
		s.Attempts = append(s.Attempts, schemas.FailedAttempt{Time: at(), Class: text(errorBudget / 8)})
	}
	return s
}

// A state is the same after it travelled in headers, wherever the message went.
func TestStatesTravel(t *testing.T) {
	random := rand.New(rand.NewPCG(111, 0))
	for range 500 {
		want, e := randomState(random), schemas.Envelope{Exchange: "shop", RoutingKey: "k", Body: []byte("x")}
		for name, p := range map[string]amqp.Publishing{
			"between queues": DefaultFrameMax.Wrap(e, want),
			"the last hop":   DefaultFrameMax.WrapForQueue(e, want, ""),
			"without a body": DefaultFrameMax.WrapWithoutBody(e, want, OmittedBody{Size: 1, In: schemas.BodyInPublished}),
		} {
			_, got, err := Unwrap(wiretest.Arriving(p, "", "q"))
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
				t.Fatalf("%s: %v (-want +got):\n%s", name, err, diff)
			}
		}
	}
}

// What a publisher writes in place of a span counts for nothing: spans become labels of metrics.
func TestOnlySpansTravel(t *testing.T) {
	const span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for sent, want := range map[string]string{span: span, span + "-x": "", "00-1-2-01": "", strings.ReplaceAll(span, "-", "0"): "", "0" + strings.Replace(span, "-", "", 1) + "-": "", "01" + span[2:]: "", strings.Repeat("-", len(span)): "", strings.Repeat("\xff", len(span)): "", strings.ToUpper(span): ""} {
		if got := readState(header.Table{headerTrace: sent}).Trace; got != want {
			t.Errorf("%q became %q", sent, got)
		}
	}
}

// Each failure adds one attempt to the newest of the history, and the history of a state
// is not shared with the states that follow from it.
func TestFailuresAddUp(t *testing.T) {
	at := func(n int) time.Time { return time.Unix(int64(1_800_000_000+n), 0) }
	var state schemas.State
	for n := 1; n <= 3*mostAttempts; n++ {
		before := append([]schemas.FailedAttempt(nil), state.Attempts...)
		next := state.Failed(at(n), time.Second, "orders", schemas.Failure{Message: fmt.Sprint("failure ", n), Class: fmt.Sprint(n)})
		_ = state.Failed(at(n+1000), time.Second, "mail", schemas.Failure{Class: "another"})
		if diff := cmp.Diff(before, state.Attempts, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("after failure %d, the state before it changed:\n%s", n, diff)
		}
		state = next
		if state.Attempt != n || !state.FirstFailed.Equal(at(1)) || !state.Time.Equal(at(n)) || state.Queue != "orders" || state.Failure.Message != fmt.Sprint("failure ", n) {
			t.Fatalf("after failure %d: %+v", n, state)
		}
		if len(state.Attempts) != min(n, mostAttempts) {
			t.Fatalf("after failure %d there are %d attempts", n, len(state.Attempts))
		}
		for i, attempt := range state.Attempts {
			if want := n - len(state.Attempts) + 1 + i; attempt.Class != fmt.Sprint(want) || !attempt.Time.Equal(at(want)) {
				t.Fatalf("after failure %d, attempt %d is %+v, want %d", n, i, attempt, want)
			}
		}
	}
	for n := 1; n < 4; n++ {
		state = state.Waited(at(5000 + n))
		if state.Waits != n || !state.WaitsSince.Equal(at(5001)) || state.Attempt != 3*mostAttempts {
			t.Fatalf("after wait %d: %d since %s, %d attempts", n, state.Waits, state.WaitsSince, state.Attempt)
		}
	}
}

// The headers of a message have the names and types that other versions and languages
// read. They never change.
func TestGoldenHeaders(t *testing.T) {
	event := wiretest.GoldenEvent()
	event.Waits, event.WaitsSince, event.Replay, event.ReplayOf = 1, event.Time, "job-1", "01A"
	e := schemas.Envelope{Exchange: "shop", RoutingKey: "order.created", Properties: wiretest.EveryProperty(), Headers: amqp.Table{"tenant": "acme", "CC": []any{"audit"}}, Body: []byte("x")}
	p := DefaultFrameMax.Wrap(e, event.State)
	want := amqp.Table{
		"tenant": "acme", "watership-v": int64(1), "watership-fingerprint": event.Fingerprint, "watership-message": "01J", "watership-queue": "orders",
		"watership-attempt": int64(2), "watership-first-failed": "2026-05-04T03:01:51.123456Z", "watership-error": "no stock of item 42",
		"watership-error-type": "http.Status", "watership-error-class": "ordering", "watership-stack": "main.go:1", "watership-event-id": "01K",
		"watership-time": "2026-05-04T03:02:01.123456Z", "watership-delay": int64(10_000), "watership-waits": int64(1),
		"watership-waits-since": "2026-05-04T03:02:01.123456Z", "watership-duration": int64(20_000_000), "watership-parent": "v1:c0ffee",
		"watership-replay": "job-1", "watership-replay-of": "01A", "watership-origin-exchange": "shop", "watership-origin-routing-key": "order.created",
		"watership-expiration": "60000", "watership-user-id": "guest", "watership-cc": []any{"audit"}, "watership-priority": int64(7),
		"watership-delivery-mode": int64(2), "watership-timestamp": "1700000000",
		"watership-attempts": []any{
			amqp.Table{"time": "2026-05-04T03:01:51.123456Z", "class": "default"}, amqp.Table{"time": "2026-05-04T03:02:01.123456Z", "class": "ordering"},
		},
	}
	if diff := cmp.Diff(want, p.Headers); diff != "" {
		t.Errorf("the headers are others (-want +got): a change of them needs a new header.Version\n%s", diff)
	}
	kept, err := time.Parse(time.RFC3339, "2026-05-04T03:02:01Z")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]any{"watership-kept-for": "failures", "watership-kept-since": "2026-05-04T03:02:01Z"} {
		if got := WrapKept(event, event.Action.Stream(), kept).Headers[name]; got != value {
			t.Errorf("%s is %v, want %v", name, got, value)
		}
	}
	mark := DefaultFrameMax.WrapForExchange(schemas.Envelope{Exchange: "shop"}, event.State, "").Headers
	if diff := cmp.Diff(amqp.Table{
		"watership-v": int64(1), "watership-fingerprint": event.Fingerprint, "watership-replay": "job-1", "watership-replay-of": "01A", "watership-timestamp": "",
	}, mark); diff != "" {
		t.Errorf("the mark of a replay is another (-want +got):\n%s", diff)
	}
}

// The document of a message in the queue of unstorable messages is known by its id, its
// stream and the time, and by none of them alone.
func TestKeptForNeedsAll(t *testing.T) {
	event := wiretest.GoldenEvent()
	since := time.Unix(1_800_000_000, 0).UTC()
	arrived := wiretest.Arriving(WrapKept(event, event.Action.Stream(), since), schemas.Topology{}.Direct(), schemas.Topology{}.Unstorable())
	want := Kept{EventID: "01K", Stream: schemas.Failures, Since: since}
	if got, is := KeptFor(arrived); !is || got != want {
		t.Fatalf("got %+v, %v, want %+v", got, is, want)
	}
	for name, values := range map[string][]any{
		headerEventID: {nil, "", strings.Repeat("x", longestID+1), "\xff", int64(1)}, headerKeptFor: {nil, "", "archive", int64(1)},
		headerKeptSince: {nil, "", "yesterday", since.Unix()},
	} {
		for _, value := range values {
			if got, is := KeptFor(wiretest.With(arrived, amqp.Table{name: value})); is {
				t.Errorf("%s: %v gives %+v", name, value, got)
			}
		}
	}
}
