package server_test

import (
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// An installation that keeps everything is told to drop the oldest: serve does
// not begin before setup has emptied the former queue. Then the store is away for
// too long, and the gap is to be found. In the end it keeps everything again.
func TestDropOldest(t *testing.T) {
	servertest.OnEvery(t, func(t *testing.T, p servertest.Parts) {
		broker := p.Broker
		i := p.Install(t, servertest.NewService(t, func(servertest.Post, int) int { return 200 }).URL)
		storeAway, storeBack := p.Breakable(t, i)
		channel := broker.Channel(t)
		publish := func(from, to int) {
			for n := from; n < to; n++ {
				err := channel.Publish(i.Exchange, "k", false, false, amqp.Publishing{MessageId: fmt.Sprint("m-", n)})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		keeps := schemas.Topology{Prefix: i.Prefix}
		drops := schemas.Topology{Prefix: i.Prefix, IndexLimit: 20}
		i.Must(t, "setup")
		publish(0, 30)
		servertest.Until(t, "copies to wait", func() bool { return broker.Len(t, keeps.Index()) == 30 })

		i.Rewrite(t, "tap: {", "tap: {when_full: drop_oldest, limit: 20, ")
		if r := i.Run(t, "serve"); r.Code != 1 || !strings.Contains(r.Err, "run `watership setup`, which moves on to queue "+drops.Index()) {
			t.Fatalf("serve: %+v", r)
		}
		list, _ := i.Findings(t)
		servertest.WantFinding(t, list, doctor.Error, "run watership setup", "queue "+keeps.Index()+" is bound to the tap")
		if out := i.Must(t, "setup"); !strings.Contains(out, keeps.Index()+" is emptied and replaced by "+drops.Index()) {
			t.Errorf("setup says %s", out)
		}
		i.Eventually(t, "action: published", 30)
		if _, err := broker.Channel(t).QueueDeclarePassive(keeps.Index(), true, false, false, false, nil); err == nil {
			t.Errorf("%s is still there", keeps.Index())
		}

		serving := i.Serve(t)
		storeAway()
		publish(30, 530)
		servertest.Until(t, "copies to be dropped", func() bool { return i.Scrape(t)["watership_index_dropping"] == 1 })
		servertest.Until(t, "doctor to say so", func() bool { // as soon as the management API does
			list, _ = i.Findings(t)
			return servertest.Saying(list, doctor.Warning, drops.IndexLate()+" is full") != nil
		})
		storeBack()
		gap := i.Eventually(t, "action: dropped", 1)[0]
		missing := 530 - len(i.Search(t, "action: published"))
		var estimate int
		if _, err := fmt.Sscanf(gap.Failure.Message, "about %d messages", &estimate); err != nil || missing < 50 || estimate < missing/2 || estimate > 2*missing {
			t.Errorf("%d are missing: %s", missing, gap.Failure.Message)
		}
		if gap.Duration <= 0 || gap.Failure.Type != "gap" || gap.Queue != drops.Index() {
			t.Errorf("%+v", gap)
		}
		got := i.Scrape(t)
		if got["watership_index_dropping"] != 0 || got["watership_index_dropped_messages_total"] != float64(estimate) || got["watership_index_fingerprint_mismatches_total"] != 0 {
			t.Errorf("metrics: %v", got)
		}
		if out := i.Must(t, "replay", "action: dropped", "--dry-run"); !strings.Contains(out, "not about a message") {
			t.Errorf("replay says %s", out)
		}
		serving.Stop(t)

		i.Rewrite(t, "tap: {when_full: drop_oldest, limit: 20, ", "tap: {")
		if out := i.Must(t, "setup"); !strings.Contains(out, drops.Index()+" is emptied and replaced by "+keeps.Index()) {
			t.Errorf("setup says %s", out)
		}
		i.Serve(t).Stop(t)
	})
}

// Copies that were dropped while no process ran are a gap as well, although the queues are no longer
// full once they are consumed.
func TestGapWhileNoProcessRan(t *testing.T) {
	servertest.OnEvery(t, func(t *testing.T, p servertest.Parts) {
		i := p.Install(t, servertest.NewService(t, func(servertest.Post, int) int { return 200 }).URL)
		i.Rewrite(t, "tap: {", "tap: {when_full: drop_oldest, limit: 20, ")
		i.Must(t, "setup")
		channel := p.Broker.Channel(t)
		for n := range 200 {
			if err := channel.Publish(i.Exchange, "k", false, false, amqp.Publishing{MessageId: fmt.Sprint("m-", n)}); err != nil {
				t.Fatal(err)
			}
		}
		drops := schemas.Topology{Prefix: i.Prefix, IndexLimit: 20}
		servertest.Until(t, "the queues to be full", func() bool {
			return p.Broker.Len(t, drops.Index()) == 20 && p.Broker.Len(t, drops.IndexLate()) == 20
		})
		i.Serve(t)
		gap := i.Eventually(t, "action: dropped", 1)[0]
		if gap.Failure.Type != "gap" || gap.Queue != drops.Index() || !strings.Contains(gap.Failure.Message, "while no process recorded them") {
			t.Errorf("%+v", gap)
		}
		if got := i.Scrape(t)["watership_index_dropping"]; got != 0 {
			t.Errorf("it is dropping still: %v", got)
		}
	})
}

// Without the management API nobody can say how many copies are missing: the gap
// is found all the same, and says so.
func TestGapWithoutManagement(t *testing.T) {
	t.Parallel() // most of it is waiting
	p := servertest.Newest(t)
	broker := p.Broker
	i := p.Install(t, servertest.NewService(t, func(servertest.Post, int) int { return 200 }).URL)
	storeAway, storeBack := p.Breakable(t, i)
	i.Rewrite(t, broker.ManagementURL, "http://guest:guest@127.0.0.1:1")
	i.Rewrite(t, "tap: {", "tap: {when_full: drop_oldest, limit: 20, ")
	i.Must(t, "setup")
	i.Serve(t)
	storeAway()
	channel := broker.Channel(t)
	for n := range 200 {
		if err := channel.Publish(i.Exchange, "k", false, false, amqp.Publishing{MessageId: fmt.Sprint("m-", n)}); err != nil {
			t.Fatal(err)
		}
	}
	servertest.Until(t, "copies to be dropped", func() bool { return i.Scrape(t)["watership_index_dropping"] == 1 })
	storeBack()
	gap := i.Eventually(t, "action: dropped", 1)[0]
	if !strings.HasPrefix(gap.Failure.Message, "an unknown number of messages") || gap.Duration <= 0 {
		t.Errorf("%+v", gap)
	}
	if dropped := i.Scrape(t)["watership_index_dropped_messages_total"]; dropped != 0 {
		t.Errorf("the metric claims %v", dropped)
	}
}
