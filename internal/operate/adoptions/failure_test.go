package adoptions

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/report"
	"github.com/watershipmq/watership/schemas"
)

func TestTextsOfAReportAreShortened(t *testing.T) {
	long := strings.Repeat("é", longestStack)
	r := Failure{Error: long, ErrorType: long, Stack: long}.report()
	for name, test := range map[string]struct {
		text string
		most int
	}{"error": {r.Error, longestError}, "type": {r.ErrorType, longestError / 4}, "stack": {r.Stack, longestStack}} {
		if len(test.text) > test.most || len(test.text) < test.most-1 || !utf8.ValidString(test.text) {
			t.Errorf("the %s has %d bytes, want at most %d", name, len(test.text), test.most)
		}
	}
}

func TestAFailureIsReportedAsPoison(t *testing.T) {
	at := time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)
	r := Failure{Error: "boom", Attempts: 3, FailedAt: at}.report()
	if r.Outcome != report.Poison || r.Error != "boom" || r.Attempts != 3 || !r.FailedAt.Equal(at) {
		t.Errorf("%+v", r)
	}
}

func TestAttemptsOfAReportAreBounded(t *testing.T) {
	for attempts, want := range map[int]int{-1: 0, 7: 7, maxAttempts + 1: maxAttempts} {
		if got := (Failure{Attempts: attempts}).report().Attempts; got != want {
			t.Errorf("%d attempts become %d, want %d", attempts, got, want)
		}
	}
}

func TestATimeBeforeComputersIsNotReported(t *testing.T) {
	for _, year := range []int{1, 1900, 1970, 10_000} {
		if at := (Failure{FailedAt: time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)}).report().FailedAt; !at.IsZero() {
			t.Errorf("year %d: %s", year, at)
		}
	}
}

func TestNumbersOfHeaders(t *testing.T) {
	for _, test := range []struct {
		value any
		want  int
	}{
		{int32(7), 7},
		{int64(7), 7},
		{int16(7), 7},
		{"7", 7},
		{[]byte("7"), 7},
		{int32(-7), 0},
		{"-7", 0},
		{int64(1) << 31, 0},
		{"seven", 0},
		{7.5, 0},
		{nil, 0},
		{true, 0},
	} {
		if got := (headers{"n": test.value}).number("n"); got != test.want {
			t.Errorf("%#v is read as %d, want %d", test.value, got, test.want)
		}
	}
}

func TestTimesOfHeaders(t *testing.T) {
	at := time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)
	for _, value := range []any{at, at.In(time.FixedZone("CET", 3600)), "2026-11-24T10:00:00Z", "2026-11-24T11:00:00+01:00", "1795514400000", int64(1795514400000)} {
		if got := (headers{"at": value}).time("at", time.RFC3339); got != at {
			t.Errorf("%v is read as %s", value, got)
		}
	}
	for _, value := range []any{nil, "yesterday", int64(0), int64(-5), "9223372036854775807", true} {
		if got := (headers{"at": value}).time("at", time.RFC3339); !got.IsZero() {
			t.Errorf("%v is read as %s", value, got)
		}
	}
}

func TestTextsOfHeadersAreUTF8(t *testing.T) {
	for _, test := range []struct {
		value any
		want  string
	}{{"a", "a"}, {[]byte("a"), "a"}, {"a\xff", "a?"}, {int32(7), ""}, {nil, ""}} {
		if got := (headers{"text": test.value}).text("text"); got != test.want {
			t.Errorf("%#v is read as %q, want %q", test.value, got, test.want)
		}
	}
}

func TestHeadersOfTheBrokerAreRemoved(t *testing.T) {
	e := schemas.Envelope{Headers: amqp.Table{"x-death": []any{}, "x-first-death-queue": "orders", "added": "x", "tenant": "acme"}}
	got := withoutHeaders(e, func(name string) bool { return name == "added" })
	if len(got.Headers) != 1 || got.Headers["tenant"] != "acme" || len(e.Headers) != 4 {
		t.Errorf("%v of %v", got.Headers, e.Headers)
	}
}

func TestEndingsOfErrorQueues(t *testing.T) {
	for errorQueue, want := range map[string]string{"orders.dlq": "orders", "orders_error": "orders", "orders": "", ".dlq": ""} {
		if got := queueBefore(errorQueue, ".dlq", "_error"); got != want {
			t.Errorf("%s: %q, want %q", errorQueue, got, want)
		}
	}
}

// readNamed reads a failure that names a queue and an exchange.
func readNamed(queue, exchange string) error {
	read := func(schemas.Envelope, string) (Failure, error) {
		return Failure{Queue: queue, Message: schemas.Envelope{Exchange: exchange, RoutingKey: "k"}}, nil
	}
	_, err := Format{read: read}.Read(schemas.Envelope{}, "errors", "", schemas.Topology{Prefix: "w"})
	return err
}

func TestFailuresThatAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ queue, exchange, want string }{
		"without a queue":          {"", "shop", "name the queue"},
		"a queue without a name":   {strings.Repeat("q", 256), "shop", "its queue cannot be one"},
		"a long exchange":          {"orders", strings.Repeat("x", 256), "more than 255 bytes"},
		"Watership's own queue":    {"w.due", "shop", "Watership's own"},
		"Watership's own exchange": {"orders", "w.retry", "Watership's own"},
	} {
		if err := readNamed(test.queue, test.exchange); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if err := readNamed("orders", "shop"); err != nil {
		t.Error(err)
	}
}

func TestTheMissingHeaderIsNamed(t *testing.T) {
	for _, test := range []struct {
		headers map[string]any
		want    string
	}{
		{nil, "it has no header a or b: it is none of X's failed messages"},
		{map[string]any{"b": ""}, "its header b is empty: it is none of X's failed messages"},
		{map[string]any{"a": int32(1)}, "its header a has another type: it is none of X's failed messages"},
	} {
		if err := missing(test.headers, "X", "a", "b"); err == nil || err.Error() != test.want {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
}

func TestResultsCountByOriginAndErrorType(t *testing.T) {
	var r Result
	for _, f := range []Failure{
		{Queue: "orders", ErrorType: "A"},
		{Queue: "orders", ErrorType: "B"},
		{Queue: "orders", ErrorType: "B"},
		{Queue: "orders", ErrorType: "B", Message: schemas.Envelope{Exchange: "shop"}},
	} {
		r.add(f)
	}
	r.sort()
	want := []OriginGroup{{"orders", "", "B", 2}, {"orders", "", "A", 1}, {"orders", "shop", "B", 1}}
	if r.Failures != 4 || len(r.Groups) != len(want) {
		t.Fatalf("%+v", r)
	}
	for i, g := range r.Groups {
		if g != want[i] {
			t.Errorf("group %d is %+v, want %+v", i, g, want[i])
		}
	}
}

func TestGroupsOfAResultAreBounded(t *testing.T) {
	var r Result
	for n := range maxGroups + 5 {
		r.add(Failure{Queue: "orders", ErrorType: strings.Repeat("x", n)})
	}
	if r.Failures != maxGroups+5 || len(r.Groups) != maxGroups {
		t.Errorf("%d failures in %d groups", r.Failures, len(r.Groups))
	}
}

func TestAResultWithoutFailuresHasAnEmptyList(t *testing.T) {
	var r Result
	if r.sort(); r.Groups == nil {
		t.Error("the groups are null in JSON")
	}
}

func TestTheFirstUnreadableMessageSaysWhy(t *testing.T) {
	var r Result
	r.unreadable(errors.New("first"))
	r.unreadable(errors.New("second"))
	if r.Unreadable != 2 || r.Cause != "first" {
		t.Errorf("%+v", r)
	}
}
