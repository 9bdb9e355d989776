package client

import (
	"testing"

	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/replayer"
)

// A message that an earlier one of its stream has stopped belongs to a canary.
func TestCanaryWithAStoppedMessage(t *testing.T) {
	job := replayer.Job{ID: "j", State: replayer.Paused, Failed: 1, Stopped: 1}
	w := watcher{now: replays.Job{Record: replays.JobRecord(job)}}
	if err := w.result(2); err != nil {
		t.Errorf("a canary of 2: %v", err)
	}
	if err := w.result(3); err == nil {
		t.Error("a canary of 3 was stopped before its end, and that is no error")
	}
}
