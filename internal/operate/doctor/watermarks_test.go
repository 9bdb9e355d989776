package doctor

import (
	"context"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	embedded "github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/indexer"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/rabbitmq"
)

// Two RabbitMQ systems that record with one source are found, while both do.
func TestASourceOfTwoBrokers(t *testing.T) {
	s := newSetUpSite(t)
	s.Settings.Source = "shop"
	green := embedded.Start(t, embedded.Config{ClusterName: "green"})
	must(t, pipeline.Declare(t.Context(), pipeline.Config{Connection: rabbitmq.Connection{URL: green.URL()}, Topology: s.Topology}))
	store, err := s.system.Store(t.Context())
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- indexer.New(indexer.Config{
			Connection: rabbitmq.Connection{URL: green.URL()}, Store: store, Source: "shop", Topology: s.Topology,
		}).Run(ctx)
	}()
	conn, err := amqp.Dial(green.URL())
	must(t, err)
	defer conn.Close()
	channel, err := conn.Channel()
	must(t, err)
	must(t, channel.PublishWithContext(t.Context(), "", s.Topology.Index(), false, false, amqp.Publishing{Body: []byte("{}")}))
	recorded := func() eventstore.Watermarks {
		watermarks, _, err := eventstore.ReadWatermarks(t.Context(), store, "shop")
		must(t, err)
		return watermarks
	}
	rabbittest.Eventually(t, "the other broker to record", func() bool { return len(recorded().Brokers) > 0 })
	want(t, of("watermarks", Run(t.Context(), s.Config)), Error, "another RabbitMQ, green/", "source of its own")
	stop()
	must(t, <-ended)

	past := recorded()
	for name, at := range past.Brokers {
		past.Brokers[name] = at.Add(-2 * otherBrokerAge)
	}
	past.Source, s.Settings.Source = "moved", "moved"
	saveRecord(t, s, eventstore.WatermarkRecord, past)
	for _, finding := range Run(t.Context(), s.Config) {
		if finding.Code == SourceShared {
			t.Errorf("after a move: %+v", finding)
		}
	}
}
