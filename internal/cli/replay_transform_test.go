package cli

import (
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// A replay with a program shows what it changes before anything is sent, and the job keeps
// the program: with the servers themselves and through the API.
func TestReplayTransform(t *testing.T) { played(t, testReplayTransform) }

func testReplayTransform(t *testing.T, a *playback) {
	a.keep(a.event(schemas.Poisoned, 1), a.event(schemas.Poisoned, 2), a.event(schemas.Poisoned, 3), a.event(schemas.Poisoned, 4))
	file := servertest.WriteFile(t, "fix.jq", `if .body.order == 1 then .body.currency = "EUR" | .headers.fixed = true
elif .body.order == 2 then null elif .body.order == 3 then error("no price of " + .properties.message_id) else . end`)
	replay := []string{"replay", "action: poisoned", "--to-failed-queue", "--transform", file, "--yes"}
	preview := []string{
		"3 messages to send", "1  cannot be sent: the transform fails", "1  left out: by the transform",
		"is sent with\n    .body.currency: added \"EUR\"\n    .headers.fixed: added true\n", "the program failed: error: no price of m-3", "transform: if .body.order",
	}
	servertest.WantRun(t, a.Run(t, append(replay, "--dry-run")...), 0, preview...)
	ran := a.Run(t, append(replay, "--canary", "1", "--outcome-wait", "1ms")...)
	servertest.WantRun(t, ran, exitFailed, append(preview, "stopped after the first 1 message")...)
	job := onlyJob(t, a.Installation)
	servertest.WantRun(t, a.Run(t, "jobs", "show", job.ID), 0, "transform", "currency")
	a.WithRoles(t, "index") // a resume waits until the first step is recorded
	a.Eventually(t, "action: replayed", 1)
	ran = a.Run(t, "jobs", "resume", job.ID, "--yes")
	servertest.WantRun(t, ran, exitFailed, "sent 2 of 3", "not sent: message m-3", "no price of m-3", "1 message left out by the transform")
	if job = onlyJob(t, a.Installation); job.State != replayer.Done || job.Sent != 2 || job.Failed != 1 || job.Filtered != 1 {
		t.Errorf("the job: %+v", job)
	}
	d := a.Broker.Take(t, a.Queue, 2)
	if string(d[0].Body) != `{"currency":"EUR","order":1}` || d[0].Headers["fixed"] != true || string(d[1].Body) != `{"order":4}` {
		t.Errorf("arrived: %+v", d)
	}
}

// Mistakes are found before anything is asked for.
func TestReplayTransformMistakes(t *testing.T) { played(t, testReplayTransformMistakes) }

func testReplayTransformMistakes(t *testing.T, a *playback) {
	for program, want := range map[string]string{
		".body |= nosuch": "function not defined: nosuch/0", "input": "not allowed", " \n": "the file is empty", ".body.a as": "line 1",
	} {
		r := a.Run(t, "replay", "*", "--transform", servertest.WriteFile(t, "bad.jq", program), "--yes")
		servertest.WantRun(t, r, exitUsage, "--transform", want)
	}
	servertest.WantRun(t, a.Run(t, "replay", "*", "--transform", "/nowhere.jq", "--yes"), exitUsage, "/nowhere.jq")
	servertest.WantRun(t, a.Run(t, "replay", "--ids", "-", "--transform", "-", "--yes"), exitUsage, "--ids and --transform cannot both be standard input")
	if r := a.Run(t, "jobs", "list"); !strings.Contains(r.Out, "nothing was replayed yet") {
		t.Errorf("%+v", r)
	}
}
