package cli

import (
	"strings"
	"testing"

	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// A replay with a program shows what it changes before anything is sent, and the job keeps
// the program: with the servers themselves and through the API.
func TestReplayTransform(t *testing.T) { played(t, testReplayTransform) }

func testReplayTransform(t *testing.T, a *playback) {
	a.keep(a.event(schemas.Poisoned, 1), a.event(schemas.Poisoned, 2), a.event(schemas.Poisoned, 3), a.event(schemas.Poisoned, 4))
	file := writeFile(t, "fix.jq", `if .body.order == 1 then .body.currency = "EUR" | .headers.fixed = true
elif .body.order == 2 then null elif .body.order == 3 then error("no price of " + .properties.message_id) else . end`)
	replay := []string{"replay", "action: poisoned", "--to-failed-queue", "--transform", file, "--yes"}
	preview := []string{
		"3 messages to send", "1  cannot be sent: the transform fails", "1  left out: left out by the transform",
		"is sent with\n    .body.currency: added \"EUR\"\n    .headers.fixed: added true\n", "the program failed: error: no price of m-3", "transform: if .body.order",
	}
	wantRun(t, a.run(t, append(replay, "--dry-run")...), 0, preview...)
	ran := a.run(t, append(replay, "--canary", "1", "--canary-wait", "1ms")...)
	wantRun(t, ran, exitFailed, append(preview, "stopped after the first 1 message")...)
	job := a.onlyJob(t)
	wantRun(t, a.run(t, "jobs", "show", job.ID), 0, "transform", "currency")
	ran = a.run(t, "jobs", "resume", job.ID, "--yes")
	wantRun(t, ran, exitFailed, "sent 2 of 3", "not sent: message m-3", "no price of m-3", "1 message left out by the transform")
	if job = a.onlyJob(t); job.State != replayer.Done || job.Sent != 2 || job.Failed != 1 || job.Filtered != 1 {
		t.Errorf("the job: %+v", job)
	}
	d := a.broker.Take(t, a.queue, 2)
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
		r := a.run(t, "replay", "*", "--transform", writeFile(t, "bad.jq", program), "--yes")
		wantRun(t, r, exitUsage, "--transform", want)
	}
	wantRun(t, a.run(t, "replay", "*", "--transform", "/nowhere.jq", "--yes"), exitUsage, "/nowhere.jq")
	wantRun(t, a.run(t, "replay", "--ids", "-", "--transform", "-", "--yes"), exitUsage, "--ids and --transform cannot both be standard input")
	if r := a.run(t, "jobs", "list"); !strings.Contains(r.out, "nothing was replayed yet") {
		t.Errorf("%+v", r)
	}
}
