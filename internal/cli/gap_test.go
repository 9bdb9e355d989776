package cli

import (
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/schemas"
)

// An installation that keeps everything is told to drop the oldest: serve does
// not begin before setup has emptied the former queue. Then the store is away for
// too long, and the gap is to be found. In the end it keeps everything again.
func TestDropOldest(t *testing.T) {
	onEvery(t, func(t *testing.T, p parts) {
		broker := p.broker
		i := p.install(t, newService(t, func(post, int) int { return 200 }).url)
		storeAway, storeBack := p.breakable(t, i)
		channel := broker.Channel(t)
		publish := func(from, to int) {
			for n := from; n < to; n++ {
				err := channel.Publish(i.exchange, "k", false, false, amqp.Publishing{MessageId: fmt.Sprint("m-", n)})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		keeps := schemas.Topology{Prefix: i.prefix}
		drops := schemas.Topology{Prefix: i.prefix, IndexLimit: 20}
		i.must(t, "setup")
		publish(0, 30)
		until(t, "copies to wait", func() bool { return broker.Len(t, keeps.Index()) == 30 })

		i.rewrite(t, "tap: {", "tap: {when_full: drop_oldest, limit: 20, ")
		if r := i.run(t, "serve"); r.code != exitFailed || !strings.Contains(r.err, "run `watership setup`, which moves on to queue "+drops.Index()) {
			t.Fatalf("serve: %+v", r)
		}
		list, _ := i.findings(t)
		wantFinding(t, list, doctor.Error, "run watership setup", "queue "+keeps.Index()+" is bound to the tap")
		if out := i.must(t, "setup"); !strings.Contains(out, keeps.Index()+" is emptied and replaced by "+drops.Index()) {
			t.Errorf("setup says %s", out)
		}
		i.eventually(t, "action: published", 30)
		if _, err := broker.Channel(t).QueueDeclarePassive(keeps.Index(), true, false, false, false, nil); err == nil {
			t.Errorf("%s is still there", keeps.Index())
		}

		serving := i.serve(t)
		storeAway()
		publish(30, 530)
		until(t, "copies to be dropped", func() bool { return i.scrape(t)["watership_index_dropping"] == 1 })
		until(t, "doctor to say so", func() bool { // as soon as the management API does
			list, _ = i.findings(t)
			return saying(list, doctor.Warning, drops.IndexLate()+" is full") != nil
		})
		storeBack()
		gap := i.eventually(t, "action: dropped", 1)[0]
		missing := 530 - len(i.search(t, "action: published"))
		var estimate int
		if _, err := fmt.Sscanf(gap.Failure.Message, "about %d messages", &estimate); err != nil || missing < 50 || estimate < missing/2 || estimate > 2*missing {
			t.Errorf("%d are missing: %s", missing, gap.Failure.Message)
		}
		if gap.Duration <= 0 || gap.Failure.Type != "gap" || gap.Queue != drops.Index() {
			t.Errorf("%+v", gap)
		}
		got := i.scrape(t)
		if got["watership_index_dropping"] != 0 || got["watership_index_dropped_messages_total"] != float64(estimate) || got["watership_index_fingerprint_mismatches_total"] != 0 {
			t.Errorf("metrics: %v", got)
		}
		if out := i.must(t, "replay", "action: dropped", "--dry-run"); !strings.Contains(out, "not about a message") {
			t.Errorf("replay says %s", out)
		}
		serving.stop(t)

		i.rewrite(t, "tap: {when_full: drop_oldest, limit: 20, ", "tap: {")
		if out := i.must(t, "setup"); !strings.Contains(out, drops.Index()+" is emptied and replaced by "+keeps.Index()) {
			t.Errorf("setup says %s", out)
		}
		i.serve(t).stop(t)
	})
}

// Copies that were dropped while no process ran are a gap as well, although the queues are no longer
// full once they are consumed.
func TestGapWhileNoProcessRan(t *testing.T) {
	onEvery(t, func(t *testing.T, p parts) {
		i := p.install(t, newService(t, func(post, int) int { return 200 }).url)
		i.rewrite(t, "tap: {", "tap: {when_full: drop_oldest, limit: 20, ")
		i.must(t, "setup")
		channel := p.broker.Channel(t)
		for n := range 200 {
			if err := channel.Publish(i.exchange, "k", false, false, amqp.Publishing{MessageId: fmt.Sprint("m-", n)}); err != nil {
				t.Fatal(err)
			}
		}
		drops := schemas.Topology{Prefix: i.prefix, IndexLimit: 20}
		until(t, "the queues to be full", func() bool {
			return p.broker.Len(t, drops.Index()) == 20 && p.broker.Len(t, drops.IndexLate()) == 20
		})
		i.serve(t)
		gap := i.eventually(t, "action: dropped", 1)[0]
		if gap.Failure.Type != "gap" || gap.Queue != drops.Index() || !strings.Contains(gap.Failure.Message, "while no process recorded them") {
			t.Errorf("%+v", gap)
		}
		if got := i.scrape(t)["watership_index_dropping"]; got != 0 {
			t.Errorf("it is dropping still: %v", got)
		}
	})
}

// Without the management API nobody can say how many copies are missing: the gap
// is found all the same, and says so.
func TestGapWithoutManagement(t *testing.T) {
	t.Parallel() // most of it is waiting
	p := newest(t)
	broker := p.broker
	i := p.install(t, newService(t, func(post, int) int { return 200 }).url)
	storeAway, storeBack := p.breakable(t, i)
	i.rewrite(t, broker.ManagementURL, "http://guest:guest@127.0.0.1:1")
	i.rewrite(t, "tap: {", "tap: {when_full: drop_oldest, limit: 20, ")
	i.must(t, "setup")
	i.serve(t)
	storeAway()
	channel := broker.Channel(t)
	for n := range 200 {
		if err := channel.Publish(i.exchange, "k", false, false, amqp.Publishing{MessageId: fmt.Sprint("m-", n)}); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "copies to be dropped", func() bool { return i.scrape(t)["watership_index_dropping"] == 1 })
	storeBack()
	gap := i.eventually(t, "action: dropped", 1)[0]
	if !strings.HasPrefix(gap.Failure.Message, "an unknown number of messages") || gap.Duration <= 0 {
		t.Errorf("%+v", gap)
	}
	if dropped := i.scrape(t)["watership_index_dropped_messages_total"]; dropped != 0 {
		t.Errorf("the metric claims %v", dropped)
	}
}
