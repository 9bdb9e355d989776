package server_test

import (
	"net/http"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// A consumer of another program dead-letters its messages to an exchange of its own, and
// publishes one again with a counter. All copies are the same messages: in the record, for
// the route that handles them, and for a replay.
func TestMessagesThatComeBack(t *testing.T) {
	servertest.OnNewest(t, func(t *testing.T, p servertest.Parts) {
		i := p.Install(t, servertest.NewService(t, func(_ servertest.Post, n int) int {
			if n == 0 {
				return http.StatusInternalServerError // so that it is retried
			}
			return http.StatusOK
		}).URL)
		back, work := i.Prefix+"-back", i.Prefix+"-work"
		channel := p.Broker.Channel(t)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(channel.ExchangeDeclare(back, "topic", true, false, false, false, nil))
		t.Cleanup(func() { p.Broker.DeleteExchange(t, back) })
		i.Rewrite(t, "exchanges: [", "exchanges: [{name: "+back+", type: topic}, ")
		i.Rewrite(t, "index: {", "fingerprint: {ignore_headers: [retries], fold_dead_letters: true}\nindex: {")
		i.Serve(t)
		_, err := channel.QueueDeclare(work, true, false, false, false, amqp.Table{"x-dead-letter-exchange": back, "x-dead-letter-routing-key": "again"})
		must(err)
		must(channel.QueueBind(work, "k", i.Exchange, false, nil))
		must(channel.QueueBind(i.Queue, "again", back, false, nil))
		publish := func(m amqp.Publishing) { t.Helper(); must(channel.Publish(i.Exchange, "k", false, false, m)) }
		publish(amqp.Publishing{MessageId: "m-1", Body: []byte("1"), Headers: amqp.Table{"retries": int64(0)}})
		publish(amqp.Publishing{Body: []byte("without an id")})
		servertest.Until(t, "both messages are in the queue", func() bool { return p.Broker.Len(t, work) == 2 })
		for range 2 {
			d, _, err := channel.Get(work, false)
			must(err)
			must(d.Reject(false))
		}
		publish(amqp.Publishing{MessageId: "m-1", Body: []byte("1"), Headers: amqp.Table{"retries": int64(1)}})

		published := i.Eventually(t, "action: published", 5)
		i.Eventually(t, "action: handled", 5)
		for id, want := range map[string]int{"m-1": 3, "": 2} {
			fingerprint := ""
			for _, e := range published {
				if e.Envelope.Properties.MessageID == id && e.Envelope.Exchange == i.Exchange {
					fingerprint = e.Fingerprint
				}
			}
			for _, action := range []schemas.Action{schemas.Published, schemas.Handled} {
				i.Eventually(t, "action: "+string(action)+" and fingerprint: "+`"`+fingerprint+`"`, want)
			}
		}
		i.Eventually(t, "action: published and destination.name: "+back, 2) // found where they were seen
		to := p.Broker.Queue(t, nil)
		servertest.WantRun(t, i.Run(t, "replay", "action: published", "--to-queue", to, "--yes"), 0,
			"2 messages to send", "3  left out: another event of the same message", "sent 2 of 2")
		// The dead letters alone, to the exchange where they were seen: its copies are known as replays.
		servertest.WantRun(t, i.Run(t, "replay", "destination.name: "+back+" and action: published", "--yes"), 0, "sent 2 of 2")
		i.Eventually(t, "action: published and destination.name: "+back+" and watership.replay.job: *", 2)
		servertest.WantRun(t, i.Run(t, "replay", "destination.name: "+back+" and action: published", "--yes"), 0, "0 messages to send", "already replayed")
	})
}
