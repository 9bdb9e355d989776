package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/schemas"
)

// worked gives an event of an attempt its times.
func worked(queue string, waited, took, total time.Duration) func(*schemas.Event) {
	return func(e *schemas.Event) {
		e.Queue, e.Attempt, e.QueueTime, e.Duration, e.TotalTime = queue, 1, waited, took, total
	}
}

// The times of work are printed for each queue, and the slowest messages are found by each of them, the
// same from a store and through the API.
func TestTimesOfWork(t *testing.T) { everyWay(t, testTimesOfWork) }

func testTimesOfWork(t *testing.T, seed seeder) {
	a := seed(t)
	var events []schemas.Event
	for n := range 20 {
		took := time.Duration(n+1) * time.Second
		events = append(events, a.event(n+1, schemas.Handled, worked("orders", 100*time.Millisecond, took, took+time.Hour)))
	}
	a.keep(t, append(events,
		a.event(31, schemas.Poisoned, worked("mails", time.Minute, 2*time.Millisecond, 0), poisonedAt("mails", "no")),
		a.event(32, schemas.Handled, at("mails")),
		a.event(33, schemas.Resumed, worked("mails", 0, time.Hour, 0)),
	)...)
	words := func(args ...string) string {
		return strings.Join(strings.Fields(a.must(t, append([]string{"times"}, args...)...)), " ")
	}
	for _, text := range []string{"QUEUE TIME P50 P95 P99 MAX KNOWN orders in queue", "100ms 20 orders handler", "20s 20 orders total", "1m0s 1 mails handler", "mails total 0"} {
		if got := words(); !strings.Contains(got, text) {
			t.Errorf("there is no %q in %s", text, got)
		}
	}
	wantLines(t, a.must(t, "times", "queue: nobody"), "nothing found")
	if got := words("--limit", "1"); strings.Contains(got, "mails") || !strings.HasSuffix(got, "2 attempts at other queues") {
		t.Errorf("of one queue: %s", got)
	}
	var queues []messages.QueueTimes
	if err := json.Unmarshal([]byte(a.must(t, "times", "-o", "json")), &queues); err != nil || len(queues) != 2 || queues[0].Attempts != 20 || queues[1].Total.Count != 0 {
		t.Fatalf("%+v, %v", queues, err)
	}
	handler := queues[0].Handler
	for name, test := range map[string]struct{ got, want float64 }{"50": {handler.P50, 10}, "95": {handler.P95, 19}, "99": {handler.P99, 20}, "100": {handler.Max, 20}} {
		if math.Abs(test.got-test.want) > test.want/100 {
			t.Errorf("percentile %s is %v, want %v", name, test.got, test.want)
		}
	}
	for sort, want := range map[string]string{
		"slowest":         "messaging.message.id\nm-20\nm-19",
		"slowest-handler": "messaging.message.id\nm-20\nm-19",
		"slowest-queue":   "messaging.message.id\nm-31\nm-20",
		"newest":          "messaging.message.id\nm-33\nm-32",
	} {
		wantLines(t, a.must(t, "search", "--sort", sort, "--limit", "2", "--fields", "message.id", "-o", "csv"), want)
	}
	if table := a.must(t, "search", "--sort", "slowest-handler", "--limit", "1"); !strings.HasPrefix(table, "HANDLER") || !strings.Contains(table, "\n    20s") {
		t.Errorf("the time is not readable:\n%s", table)
	}
	wantLines(t, a.must(t, "search", "--sort", "slowest", "--limit", "0", "--fields", "message.id", "-o", "ndjson", "not queue: mails and event.duration > 18000000000"),
		fmt.Sprintf("%s\n%s", `{"messaging.message.id":"m-20"}`, `{"messaging.message.id":"m-19"}`))
}
