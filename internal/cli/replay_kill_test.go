package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

func TestReplayKilled(t *testing.T) {
	playedDirectly(t, func(t *testing.T, a *playback) { testReplayKilled(t, a, 3000, 2, "500") })
}

func TestSoakReplayKilled(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("WATERSHIP_TEST_SOAK is not set")
	}
	testReplayKilled(t, newPlayback(t), 100_000, 5, "3000")
}

// testReplayKilled kills a replay with SIGKILL and resumes it, again and again:
// every message arrives, and at most a window of them twice each time. The kills are in the
// first third of the messages: at this rate, the rest takes seconds, so a test that sees the
// arrivals late kills a replay that still runs.
func testReplayKilled(t *testing.T, a *playback, messages, kills int, rate string) {
	events := make([]schemas.Event, messages)
	for n := range events {
		events[n] = a.event(schemas.Published, n+1)
	}
	a.keep(events...)
	arrived := a.arrivals()
	id, killed := "", 0
	for n := range kills {
		args := []string{"jobs", "resume", id, "--yes"}
		if id == "" {
			args = []string{"replay", "destination.name: " + a.Exchange, "--yes", "--rate", rate}
		}
		if a.killAt(messages*(n+1)/(3*kills), arrived, args...) {
			killed++
		}
		id = onlyJob(a.t, a.Installation).ID
	}
	servertest.WantRun(t, a.Run(t, "jobs", "resume", id, "--yes"), 0, fmt.Sprintf("sent %d of %d, job %s", messages, messages, id))
	servertest.Until(t, "every message to arrive", func() bool { different, _ := arrived(); return different == messages })
	_, twice := arrived()
	t.Logf("%d messages, %d kills, %d came twice", messages, killed, twice)
	if twice > killed*replayer.Window {
		t.Errorf("%d messages came twice after %d kills, want at most %d", twice, killed, killed*replayer.Window)
	}
	if killed != kills {
		t.Errorf("killed %d times, want %d", killed, kills)
	}
	if job := onlyJob(a.t, a.Installation); job.State != replayer.Done || job.Sent != messages || job.Failed != 0 {
		t.Errorf("the job is %s, sent %d, failed %d", job.State, job.Sent, job.Failed)
	}
}

// arrivals takes what comes to the queue, and says how many different messages
// came and how many came again.
func (a *playback) arrivals() func() (different, twice int) {
	a.t.Helper()
	deliveries, err := a.Broker.Channel(a.t).Consume(a.Queue, "", true, false, false, false, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	var mu sync.Mutex
	seen, all := map[string]bool{}, 0
	go func() { // ends with the channel
		for d := range deliveries {
			mu.Lock()
			seen[d.MessageId] = true
			all++
			mu.Unlock()
		}
	}()
	return func() (int, int) {
		mu.Lock()
		defer mu.Unlock()
		return len(seen), all - len(seen)
	}
}

// killAt runs a command and kills it when so many messages have arrived. It
// says no if the command ended before.
func (a *playback) killAt(messages int, arrived func() (int, int), args ...string) bool {
	a.t.Helper()
	cmd := exec.Command(a.Binary, append(args, "--config", a.Config)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		if different, _ := arrived(); different >= messages {
			break
		}
		select {
		case err := <-done:
			a.t.Errorf("watership %s ended with %v before it was killed\n%s", strings.Join(args, " "), err, errs.String())
			return false
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			a.t.Fatalf("watership %s does not send\n%s", strings.Join(args, " "), errs.String())
		}
	}
	_ = cmd.Process.Kill()
	<-done
	return true
}

// TestJobsWhileRunning: a job that runs is seen, cannot be run twice, and can be
// cancelled.
func TestJobsWhileRunning(t *testing.T) { played(t, testJobsWhileRunning) }

func testJobsWhileRunning(t *testing.T, a *playback) {
	var events []schemas.Event
	for n := range 1000 {
		events = append(events, a.event(schemas.Published, n+1))
	}
	a.keep(events...)
	cmd := exec.Command(a.Binary, "replay", "*", "--yes", "--rate", "5", "--config", a.Config)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	var jobs []replayer.Job
	servertest.Until(t, "the job to send", func() bool {
		if err := json.Unmarshal([]byte(a.Must(t, "jobs", "list", "-o", "json")), &jobs); err != nil {
			t.Fatal(err)
		}
		return len(jobs) == 1 && jobs[0].Sent > 0
	})
	servertest.WantRun(t, a.Run(t, "jobs", "list"), 0, jobs[0].ID, "running")
	servertest.WantRun(t, a.Run(t, "jobs", "resume", jobs[0].ID, "--yes"), exitFailed, "is run by another process")
	servertest.WantRun(t, a.Run(t, "replay", "message.id: m-1", "--again", "--dry-run"), 0, "WARNING: job "+jobs[0].ID, "has 1 of these messages")
	servertest.WantRun(t, a.Run(t, "replay", "message.id: m-1000", "--dry-run"), 0, "0 messages to send", "1  left out: job "+jobs[0].ID+" is sending them now")
	servertest.WantRun(t, a.Run(t, "jobs", "cancel", jobs[0].ID), 0, "cancelled job")
	err := cmd.Wait()
	if err == nil || !strings.Contains(errs.String(), "was cancelled") {
		t.Errorf("the replay ended with %v\n%s", err, errs.String())
	}
	if n := a.Broker.Len(t, a.Queue); n < 1 || n > 500 {
		t.Errorf("%d messages were sent", n)
	}
}
