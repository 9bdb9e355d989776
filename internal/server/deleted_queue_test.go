package server_test

import (
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// A queue that somebody deletes while no process runs has an event, too: whichever declares it again,
// serve or setup. A new installation has none.
func TestQueuesAreDeletedWhileNoProcessRuns(t *testing.T) {
	t.Parallel() // most of it is waiting
	p := servertest.Newest(t)
	i := p.Install(t, servertest.NewService(t, func(servertest.Post, int) int { return 200 }).URL)
	i.Must(t, "setup")
	lost := schemas.Topology{Prefix: i.Prefix}
	remove := func(queue string) {
		t.Helper()
		if _, err := p.Broker.Channel(t).QueueDelete(queue, false, false, false); err != nil {
			t.Fatal(err)
		}
	}
	remove(lost.Index())
	serving := i.Serve(t)
	gaps := i.Eventually(t, "action: dropped", 1)
	if gap := gaps[0]; len(gaps) > 1 || gap.Queue != lost.Index() || gap.Failure.Type != "gap" || !strings.Contains(gap.Failure.Message, "are not recorded") {
		t.Errorf("%+v", gaps)
	}
	serving.Stop(t)
	remove(lost.Retry())
	if out := i.Must(t, "setup"); !strings.Contains(out, lost.Retry()+" was deleted") {
		t.Errorf("setup says %s", out)
	}
	if n := p.Broker.Len(t, lost.Log()); n != 1 {
		t.Errorf("%d events instead of the one of the queue", n)
	}
	if out := i.Must(t, "setup"); strings.Contains(out, "was deleted") {
		t.Errorf("setup says it again: %s", out)
	}
}
