package indexer

import (
	"context"
	"testing"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/rabbitmq"
)

// TestURL: an indexer with a URL opens its connections, names the source and the virtual
// host of events by RabbitMQ, and closes the connections.
func TestURL(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		t.Parallel()
		s, store := newSystem(t, b), newStore(t, b)
		source, err := s.open(s.URL, false).Source(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		s.decoder.Source = source // of the events that the test reads
		cfg := s.config(store)
		cfg.URL, cfg.Source, cfg.VHost = s.URL, "", ""
		ctx, stop := context.WithCancel(patient(t))
		ended := make(chan error, 1)
		go func() { ended <- New(cfg).Run(ctx) }()
		s.publish(s.message("order", 1))
		event := s.wait(store, 1)[0]
		stop()
		if err := rabbittest.Receive(t, ended); err != nil {
			t.Error(err)
		}
		if event.Source != source || event.VHost != "/" || source == "" {
			t.Errorf("the event is of source %q and virtual host %q; want %q and /", event.Source, event.VHost, source)
		}
	})
}

// TestURLOfNoBroker: Run waits for RabbitMQ until it is stopped, and refuses what is no URL, and no store.
func TestURLOfNoBroker(t *testing.T) {
	nowhere := Config{Connection: rabbitmq.Connection{URL: "amqp://127.0.0.1:1"}, Store: &answeringStore{}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- New(nowhere).Run(ctx) }()
	stop()
	if err := rabbittest.Receive(t, ended); err != nil {
		t.Errorf("a stopped indexer returned %v", err)
	}
	withoutStore := nowhere
	withoutStore.Store = nil
	if err := New(withoutStore).Run(ctx); err == nil {
		t.Error("an indexer runs without a store")
	}
	nowhere.URL = "http://127.0.0.1:secret"
	if err := New(nowhere).Run(t.Context()); err == nil {
		t.Error("an indexer runs without a broker")
	}
}
