package cli

import (
	"encoding/json"
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
func TestTimesOfWork(t *testing.T) { bothWays(t, testTimesOfWork) }

func testTimesOfWork(t *testing.T, seed seeder) {
	a := seed(t)
	a.keep(t,
		a.event(1, schemas.Handled, worked("orders", 100*time.Millisecond, time.Second, time.Minute)),
		a.event(2, schemas.Handled, worked("orders", 100*time.Millisecond, 2*time.Second, 2*time.Minute)),
		a.event(31, schemas.Poisoned, worked("mails", time.Minute, 2*time.Millisecond, 0), poisonedAt("mails", "no")),
	)
	words := func(args ...string) string {
		return strings.Join(strings.Fields(a.must(t, append([]string{"times"}, args...)...)), " ")
	}
	for _, text := range []string{"QUEUE TIME P50 P95 P99 MAX KNOWN orders in queue", "100ms 2 orders handler", "2s 2 orders total", "1m0s 1 mails handler", "mails total 0"} {
		if got := words(); !strings.Contains(got, text) {
			t.Errorf("there is no %q in %s", text, got)
		}
	}
	wantLines(t, a.must(t, "times", "queue: nobody"), "nothing found")
	if got := words("--limit", "1"); strings.Contains(got, "mails") || !strings.HasSuffix(got, "1 attempt at other queues") {
		t.Errorf("of one queue: %s", got)
	}
	var queues []messages.QueueTimes
	if err := json.Unmarshal([]byte(a.must(t, "times", "-o", "json")), &queues); err != nil || len(queues) != 2 || queues[0].Attempts != 2 || queues[1].Total.Count != 0 {
		t.Fatalf("%+v, %v", queues, err)
	}
	for sort, want := range map[string]string{"slowest": "m-2", "slowest-handler": "m-2", "slowest-queue": "m-31", "newest": "m-31"} {
		wantLines(t, a.must(t, "search", "--sort", sort, "--limit", "1", "--fields", "message.id", "-o", "csv"), "messaging.message.id\n"+want)
	}
	if table := a.must(t, "search", "--sort", "slowest-handler", "--limit", "1"); !strings.HasPrefix(table, "HANDLER") || !strings.Contains(table, "\n     2s") {
		t.Errorf("the time is not readable:\n%s", table)
	}
}
