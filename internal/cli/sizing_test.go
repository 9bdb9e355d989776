package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

func TestSizing(t *testing.T) {
	t.Parallel()
	a := newSeededFile(t)
	servertest.WantRun(t, a.call(t, "doctor", "--sizing"), exitFailed, "no message was published in the last 24 hours")
	now := time.Now()
	at := func(ago time.Duration, size int) func(*schemas.Event) {
		return func(e *schemas.Event) { e.Time, e.Envelope.Body = now.Add(-ago), bytes.Repeat([]byte("x"), size) }
	}
	var events []schemas.Event
	add := func(action schemas.Action, ago time.Duration, size int) {
		events = append(events, a.event(len(events)+1, action, at(ago, size)))
	}
	for range 600 { // in the busiest minute, 10 a second
		add(schemas.Published, 10*time.Hour, 3000)
	}
	for n := range 600 {
		add(schemas.Published, time.Duration(1+n)*time.Minute+11*time.Hour, 1000)
	}
	for n := range 300 {
		add(schemas.Handled, time.Duration(n)*time.Minute, 1000)
	}
	add(schemas.Published, 25*time.Hour, 1_000_000) // before the period
	a.keep(t, events...)
	var rows []sizingRow
	if err := json.Unmarshal([]byte(a.must(t, "doctor", "--sizing", "-o", "json")), &rows); err != nil || len(rows) != 2 {
		t.Fatalf("%+v: %v", rows, err)
	}
	seen := rows[0].Traffic
	if seen.Peak < 10 || seen.Peak > 10.1 || seen.Size != 2000 || seen.Handled != 0.25 || seen.Daily < 1200 || seen.Daily > 3000 {
		t.Errorf("the traffic is %+v", seen)
	}
	if more := rows[1]; more.Times != 10 || more.Traffic.Peak != 10*seen.Peak || more.Plan.Store < 9*rows[0].Plan.Store || more.Plan.DiskADay < 9*rows[0].Plan.DiskADay {
		t.Errorf("ten times the traffic: %+v", rows)
	}
	out := a.must(t, "doctor", "--sizing")
	for _, want := range []string{"10 messages a second in the busiest minute", "bodies of 2 kB, 25 % handled by Watership", "STORE CORES", "\nnow ", "\n10 times "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	first := len(events)
	for n := range 1500 { // each message is handled at one queue or two
		add(schemas.Handled, time.Duration(n)*time.Second, 1000)
	}
	a.keep(t, events[first:]...)
	if out := a.must(t, "doctor", "--sizing"); !strings.Contains(out, "each handled by Watership 1.5 times on average.") {
		t.Errorf("messages of several queues:\n%s", out)
	}
}
