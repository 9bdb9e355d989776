package server_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/internal/wire"
)

// The time of a message is found where its publisher has set it: in the timestamp
// property, in whatever unit, and in the headers that the setting names.
func TestTimesOfPublishers(t *testing.T) {
	servertest.OnNewest(t, func(t *testing.T, p servertest.Parts) {
		i := p.Install(t, servertest.NewService(t, func(servertest.Post, int) int { return http.StatusOK }).URL)
		i.Rewrite(t, "index: {", "index: {time_headers: [sent_at, x-time], ")
		i.Serve(t)
		sent := time.Now().Add(-2 * time.Hour).Truncate(time.Second)
		channel := p.Broker.Channel(t)
		for n, message := range []amqp.Publishing{
			{Timestamp: time.Unix(sent.UnixMilli(), 0)},
			{Timestamp: time.Unix(sent.UnixMicro(), 0)},
			{Headers: amqp.Table{"sent_at": sent.UTC().Format(time.RFC3339)}},
			{Headers: amqp.Table{"sent_at": "never", "x-time": sent.UnixMilli()}},
		} {
			message.MessageId = fmt.Sprint("m-", n)
			if err := channel.Publish(i.Exchange, "k", false, false, message); err != nil {
				t.Fatal(err)
			}
		}
		if err := channel.Publish(i.Exchange, "k", false, false, amqp.Publishing{Headers: amqp.Table{"sent_at": "never"}}); err != nil {
			t.Fatal(err)
		}
		for _, event := range i.Eventually(t, "action: published and watership.time_source: publisher", 4) {
			if !event.Time.Equal(sent) {
				t.Errorf("%s was published at %v, want %v", event.Envelope.Properties.MessageID, event.Time, sent)
			}
		}
		i.Eventually(t, "action: published and watership.time_source: "+string(wire.TimeOfIngest), 1)
	})
}
