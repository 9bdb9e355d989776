package transport

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// The transport reaches a broker that wants a client certificate, by the URL
// alone.
func TestTLS(t *testing.T) {
	s := rabbittest.TLS(t)
	rabbittest.NoLeaks(t)
	cfg := queueConfig(s.Broker)
	cfg.Connection.AmqpURI = s.URL(s.CA, s.ClientCert, s.ClientKey)
	queue := s.Queue(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), rabbittest.Timeout)
	defer cancel()
	messages, err := newTestSubscriber(t, cfg).Subscribe(ctx, queue)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, newTestPublisher(t, cfg), queue, numbered(1)...)
	msg := rabbittest.Receive(t, messages)
	if string(msg.Payload) != "0" {
		t.Errorf("got %s", msg.Payload)
	}
	msg.Ack()
}

// A publish without the certificate ends with one reason.
func TestTLSWithoutACertificate(t *testing.T) {
	s := rabbittest.TLS(t)
	rabbittest.NoLeaks(t)
	cfg := queueConfig(s.Broker)
	cfg.Connection.AmqpURI = s.URL(s.CA, "", "")
	err := newTestPublisher(t, cfg, PublishTimeout(2*time.Second)).Publish("nowhere", numbered(1)...)
	if err == nil || strings.Count(err.Error(), "the broker wants a client certificate") != 1 {
		t.Error(err)
	}
	var lost *UnroutableError
	if errors.As(err, &lost) {
		t.Error("it reached the broker")
	}
}
