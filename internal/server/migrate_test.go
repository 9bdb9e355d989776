package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// setup is told to move on to another queue of copies while a serve of the former
// configuration runs: it changes nothing. Nor does a setup that was cut short after
// it unbound the former queue lose what is in it.
func TestSetupWaitsForTheFormerServe(t *testing.T) {
	t.Parallel() // most of it is waiting
	broker := rabbittest.Newest(t)
	i := servertest.Install(t, broker, servertest.NewService(t, func(servertest.Post, int) int { return 200 }).URL)
	former, now := schemas.Topology{Prefix: i.Prefix}, schemas.Topology{Prefix: i.Prefix, IndexLimit: 1000}
	channel := broker.Channel(t)
	publish := func(kind string) {
		for n := range 10 {
			for _, id := range []string{"", fmt.Sprint(kind, "-", n)} {
				if err := channel.Publish(i.Exchange, "k", false, false, amqp.Publishing{MessageId: id, Body: []byte(kind)}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	serving := i.Serve(t)
	publish("before")
	i.Eventually(t, "action: published", 20)
	i.Rewrite(t, "tap: {", "tap: {when_full: drop_oldest, limit: 1000, ")
	if r := i.Run(t, "setup"); r.Code != 1 || !strings.Contains(r.Err, former.Index()+" still has a consumer: stop the serve") {
		t.Errorf("setup while the former serve runs: %+v", r)
	}
	if _, err := broker.Channel(t).QueueDeclarePassive(now.Index(), true, false, false, false, nil); err == nil {
		t.Error("it began all the same")
	}
	publish("between")
	i.Eventually(t, "action: published", 40)
	serving.Stop(t)
	publish("after")
	servertest.Until(t, "copies to wait", func() bool { return broker.Len(t, former.Index()) == 20 })
	if err := channel.QueueUnbind(former.Index(), "", former.Tap(), nil); err != nil {
		t.Fatal(err)
	}
	if out := i.Must(t, "setup"); !strings.Contains(out, former.Index()+" is emptied and replaced by "+now.Index()) {
		t.Errorf("setup says %s", out)
	}
	i.Serve(t).Stop(t)
	i.Eventually(t, "action: published", 60)
	for _, queue := range []string{former.Index(), former.IndexLate()} {
		if _, err := broker.Channel(t).QueueDeclarePassive(queue, true, false, false, false, nil); err == nil {
			t.Errorf("%s is still there", queue)
		}
	}
}

// setup deletes the delay queues of a former release, through which states come by the
// default exchange, once nothing waits in them.
func TestSetupDeletesFormerDelayQueues(t *testing.T) {
	rabbittest.EachServer(t, func(t *testing.T, broker rabbittest.Broker) {
		i := servertest.Around(t, broker.VHost(t)).Install(t, servertest.Nobody)
		ours := schemas.Topology{Prefix: i.Prefix}
		empty, waiting := wire.DelaysOf(ours).Former(100*time.Millisecond), wire.DelaysOf(ours).Former(time.Hour)
		channel := i.Broker.Channel(t)
		for _, queue := range []string{empty, waiting} {
			if _, err := channel.QueueDeclare(queue, true, false, false, false, amqp.Table{
				"x-queue-type": "quorum", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": ours.Due(),
			}); err != nil {
				t.Fatal(err)
			}
		}
		i.Send(t, "", waiting, amqp.Publishing{Body: []byte("x")})
		servertest.Until(t, "the broker to count it", func() bool {
			out := i.Must(t, "setup")
			return strings.Contains(out, waiting+" holds 1 message of a former release: run setup again once it is empty")
		})
		if i.Broker.Len(t, waiting) != 1 {
			t.Error("what waits is gone")
		}
		servertest.Until(t, "the empty one to be deleted", func() bool {
			i.Must(t, "setup")
			_, err := i.Broker.Channel(t).QueueDeclarePassive(empty, true, false, false, false, nil)
			return err != nil
		})
	})
}

// The number of index queues changes up and down while copies wait and publishers publish: each message is
// recorded once, and those of a key in their order.
func TestSetupChangesThePartitions(t *testing.T) {
	t.Parallel() // most of it is waiting
	broker := rabbittest.Embedded(t)
	i := servertest.Install(t, broker, servertest.Nobody)
	channel, published := broker.Channel(t), 0
	publish := func() {
		for range 20 {
			body := fmt.Sprint(published)
			if err := channel.Publish(i.Exchange, fmt.Sprint("key", published%5), false, false, amqp.Publishing{Body: []byte(body)}); err != nil {
				t.Fatal(err)
			}
			published++
		}
	}
	i.Must(t, "setup")
	publish()
	now := schemas.Topology{Prefix: i.Prefix}
	i.Rewrite(t, "index: {", "index: {partitions: 1, ")
	for _, change := range []struct {
		from, to string
		topology schemas.Topology
	}{
		{"partitions: 1", "partitions: 3", schemas.Topology{IndexPartitions: 3}},
		{"partitions: 3", "partitions: 2, partition_key: message_id", schemas.Topology{IndexPartitions: 2, PartitionKey: "message_id"}},
		{"partitions: 2, partition_key: message_id", "partitions: 1", schemas.Topology{}},
	} {
		_, former := now.Partitions()
		now = change.topology
		now.Prefix = i.Prefix
		i.Rewrite(t, change.from, change.to)
		if r := i.Run(t, "serve"); r.Code != 1 || !strings.Contains(r.Err, "index.partitions or index.partition_key has changed") || !strings.Contains(r.Err, "moves on to queue "+now.Index()) {
			t.Errorf("serve before setup: %+v", r)
		}
		publish()
		if out := i.Must(t, "setup"); !strings.Contains(out, former[0]+" is emptied and replaced by "+now.Index()) {
			t.Errorf("setup says %s", out)
		}
		publish()
		serving := i.Serve(t)
		i.Eventually(t, "action: published", published)
		list, _ := i.Findings(t)
		servertest.WantFinding(t, list, doctor.OK, "", "Watership's queues are bound to its exchanges")
		serving.Stop(t)
	}
	events := i.Eventually(t, "action: published", published)
	last := map[string]int{}
	for _, e := range slices.Backward(events) { // the newest is first
		var n int
		if _, err := fmt.Sscan(string(e.Envelope.Body), &n); err != nil {
			t.Fatal(err)
		}
		if former, is := last[e.Envelope.RoutingKey]; is && n < former {
			t.Errorf("message %d of %s is recorded after %d", n, e.Envelope.RoutingKey, former)
		}
		last[e.Envelope.RoutingKey] = n
	}
	if len(events) != published {
		t.Errorf("%d events of %d messages", len(events), published)
	}
}
