package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
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

// setup names the search for an event only if there is one.
func TestLossThatCannotBeRecordedIsAnError(t *testing.T) {
	t.Parallel() // most of it is waiting
	admin := rabbittest.NewestServer(t)
	i := servertest.Around(t, admin).Install(t, servertest.NewService(t, func(servertest.Post, int) int { return 200 }).URL)
	i.Must(t, "setup")
	lost := schemas.Topology{Prefix: i.Prefix}
	if _, err := admin.Channel(t).QueueDelete(lost.Retry(), false, false, false); err != nil {
		t.Fatal(err)
	}
	silent := admin.Login(t, rabbittest.Rights{Configure: ".*", Write: `^(?!` + lost.Events() + `$)`, Read: ".*"}, "monitoring")
	i.Configure(t, admin.URL, silent.URL, admin.ManagementURL, silent.ManagementURL)
	r := i.Run(t, "setup")
	if r.Code != 0 || strings.Contains(r.Out, "says what is lost") || !strings.Contains(r.Err, lost.Retry()) || !strings.Contains(r.Err, "has no event") {
		t.Errorf("%+v", r)
	}
}

// The consumers of the queues of copies and events learn at once that these were deleted, and declare them
// again: a check of the topology, which the proxy keeps away, would come too late for what is published.
func TestIndexerDeclaresItsDeletedQueues(t *testing.T) {
	servertest.OnEither(t, func(t *testing.T, p servertest.Parts) {
		i := p.Install(t, servertest.NewService(t, servertest.Success).URL)
		proxy := p.Broker.NamedProxy(t)
		i.Configure(t, p.Broker.URL, proxy.URL)
		i.Must(t, "setup")
		i.Serve(t)
		proxy.Refuse("watership declaring")
		published, ch := 0, p.Broker.Channel(t)
		publish := func() {
			t.Helper()
			published++
			if err := ch.Publish(i.Exchange, "k", false, false, amqp.Publishing{MessageId: fmt.Sprint("m-", published)}); err != nil {
				t.Fatal(err)
			}
		}
		lost := schemas.Topology{Prefix: i.Prefix}
		for _, queue := range []string{lost.Index(), lost.IndexLate(), lost.Log()} {
			if _, err := p.Broker.Channel(t).QueueDelete(queue, false, false, false); err != nil {
				t.Fatal(err)
			}
			servertest.Until(t, "the event of "+queue, func() bool {
				publish()
				return slices.ContainsFunc(i.Search(t, "action: dropped"), func(e schemas.Event) bool { return e.Queue == queue })
			})
			before := published
			for range 20 {
				publish()
			}
			servertest.Until(t, "what is published after the event", func() bool {
				recorded := map[string]bool{}
				for _, e := range i.Search(t, "action: published") {
					recorded[e.Envelope.Properties.MessageID] = true
				}
				for n := before + 1; n <= published; n++ {
					if !recorded[fmt.Sprint("m-", n)] {
						return false
					}
				}
				return true
			})
			t.Logf("%d of %d messages are recorded", len(i.Search(t, "action: published")), published)
		}
		if all := i.Search(t, "action: dropped"); len(all) != 3 {
			t.Errorf("%d events of three queues: %+v", len(all), all)
		}
	})
}
