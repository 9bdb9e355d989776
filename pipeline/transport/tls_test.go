package transport

import (
	"context"
	"errors"
	"fmt"
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
	const reason = "the broker wants a client certificate"
	publisher := newTestPublisher(t, cfg, PublishTimeout(2*time.Second))
	err := publisher.Publish("nowhere", numbered(1)...)
	// A write that follows the broker's refusal of a handshake may fail before its alert is read:
	// a later try has the reason.
	for deadline := time.Now().Add(rabbittest.Timeout); !strings.Contains(fmt.Sprint(err), reason) && time.Now().Before(deadline); {
		err = publisher.Publish("nowhere", numbered(1)...)
	}
	if err == nil || strings.Count(err.Error(), reason) != 1 {
		t.Error(err)
	}
	var lost *UnroutableError
	if errors.As(err, &lost) {
		t.Error("it reached the broker")
	}
}
