package cli

import (
	"fmt"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// A job keeps the schedule of its flags: with the servers themselves and through the API.
func TestReplaySchedule(t *testing.T) { played(t, testReplaySchedule) }

func testReplaySchedule(t *testing.T, a *playback) {
	var events []schemas.Event
	for n := range 3 {
		e := a.event(schemas.Published, n+1)
		e.Time = time.Now().Add(time.Duration(n) * time.Hour)
		e.Stream = schemas.MessageStream{ID: fmt.Sprint("order-", n%2)}
		events = append(events, e)
	}
	handled := a.event(schemas.Handled, 9)
	handled.Failure = schemas.Failure{}
	a.keep(append(events, handled)...)
	replay := []string{"replay", "action: published", "--yes", "--pace", "2x", "--max-gap", "10ms", "--at-most-in-flight", "20", "--order", "stream", "--on-failure", "continue"}
	words := []string{
		"sent with the spacing of the events, 2x as fast", "at most 10ms between two messages", "at most 20 in flight", "each stream in order", "streams go on after a failure",
	}
	servertest.WantRun(t, a.Run(t, append(replay, "--dry-run")...), 0, append(words, "3 messages to send")...)
	servertest.WantRun(t, a.Run(t, append(replay, "--limit", "2")...), 0, append(words, "sent 2 of 2")...)
	job := onlyJob(t, a.Installation)
	if job.Pace != 2 || job.MaxGap != 10*time.Millisecond || job.InFlight != 20 || job.Order != replayer.ByStream || job.OnFailure != replayer.GoOn {
		t.Errorf("the job: %+v", job)
	}
	servertest.WantRun(t, a.Run(t, "jobs", "show", job.ID), 0, words...)
}

// A replay that would wait for reports that nobody sends is refused when it is planned.
func TestReplayWithoutReports(t *testing.T) { played(t, testReplayWithoutReports) }

func testReplayWithoutReports(t *testing.T, a *playback) {
	a.keep(a.event(schemas.Published, 1))
	servertest.WantRun(t, a.Run(t, "replay", "*", "--dry-run", "--at-most-in-flight", "5"), exitFailed,
		`no consumer of exchange "`+a.Exchange+`", routing key "order.created" has reported that it handled a message`)
	servertest.WantRun(t, a.Run(t, "replay", "*", "--dry-run", "--order", "stream"), exitFailed, "no message has a stream")
	for _, bad := range [][]string{
		{"--pace", "0"},
		{"--pace", "fast"},
		{"--max-gap", "1s"},
		{"--max-gap", "-1s", "--pace", "1x"},
		{"--outcome-wait", "soon"},
		{"--ramp", "5,1"},
		{"--ramp", "x"},
		{"--stop-if", "2%"},
		{"--at-most-in-flight", "-1"},
		{"--at-most-in-flight", "9999"},
		{"--order", "time"},
		{"--limit", "1", "--order", "version"},
		{"--canary", "1", "--order", "version"},
		{"--on-failure", "stop"},
		{"--on-failure", "panic", "--order", "stream"},
	} {
		servertest.WantRun(t, a.Run(t, append([]string{"replay", "*", "--dry-run"}, bad...)...), exitUsage, bad[0])
	}
}
