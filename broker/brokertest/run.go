// Package brokertest is a conformance suite for AMQP 0-9-1 brokers that behave as
// RabbitMQ with its default configuration does: some 230 named behaviours, error texts
// included. Run and RunManagement run it against any URL:
//
//	func TestBroker(t *testing.T) {
//		brokertest.Run(t, brokertest.Target{URL: "amqp://guest:guest@127.0.0.1:5672/"})
//	}
//
// It runs against RabbitMQ 3.10, 4.0 and 4.3 and against package broker. Where versions
// differ, a case names those that behave so, and the others skip it.
package brokertest

import (
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Target is the broker that the suite runs against. The suite declares queues and
// exchanges with random names, and deletes them.
type Target struct {
	// URL has the login, the virtual host and, with amqps, TLS. The login has all
	// permissions in the virtual host.
	URL string

	// Dial replaces TCP, such as broker.Broker's Dial. Nil: TCP.
	Dial func(network, address string) (net.Conn, error)

	// TLS is the client's configuration for amqps. Nil: the system's authorities.
	TLS *tls.Config
}

// target is a Target whose URL was parsed.
type target struct {
	Target
	uri amqp.URI
}

// behaviour is one case of the suite.
type behaviour struct {
	name  string
	since string // first version of RabbitMQ with it, such as "4.0"; "" for all
	until string // first version of RabbitMQ without it; "" for none
	check func(p *probe)
}

// Run runs the suite of AMQP 0-9-1, each behaviour as a parallel subtest.
func Run(t *testing.T, at Target) {
	uri, err := amqp.ParseURI(at.URL)
	if err != nil {
		t.Fatalf("parse the URL of the broker: %v", err)
	}
	target := target{at, uri}
	version := target.version(t)
	for _, group := range []struct {
		name string
		all  []behaviour
	}{
		{"exchanges", exchanges()},
		{"consistent hash", hashing()},
		{"queues", queues()},
		{"limits", limits()},
		{"dead letters", deadLetters()},
		{"publishing", publishing()},
		{"consuming", consuming()},
		{"consumer counts", consumerCounts()},
		{"acknowledging", acknowledging()},
		{"replies", replies()},
		{"transactions", transactions()},
		{"types", types()},
		{"errors", errorCases()},
		{"frames", frames()},
		{"handshake", handshakes()},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, b := range group.all {
				t.Run(b.name, func(t *testing.T) { b.run(t, target, version) })
			}
		})
	}
}

func (b behaviour) run(t *testing.T, target target, version string) {
	t.Parallel()
	if b.since != "" && isOlder(version, b.since) || b.until != "" && !isOlder(version, b.until) {
		t.Skipf("RabbitMQ %s behaves otherwise", version)
	}
	b.check(newProbe(t, target))
}

// isOlder reports whether a version, such as 4.0.5, is older than the one with a major and
// a minor number.
func isOlder(version, than string) bool {
	var have, want [2]int
	_, _ = fmt.Sscanf(version, "%d.%d", &have[0], &have[1])
	_, _ = fmt.Sscanf(than, "%d.%d", &want[0], &want[1])
	return slices.Compare(have[:], want[:]) < 0
}

func (s target) version(t *testing.T) string {
	conn := s.connect(t, amqp.Config{})
	defer conn.Close()
	version, _ := conn.Properties["version"].(string)
	return version
}

func (s target) connect(t testing.TB, cfg amqp.Config) *amqp.Connection {
	t.Helper()
	conn, err := amqp.DialConfig(s.URL, s.config(cfg))
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	return conn
}

// config adds the transport of the target to a configuration.
func (s target) config(cfg amqp.Config) amqp.Config {
	cfg.Dial, cfg.TLSClientConfig = s.Dial, s.TLS
	return cfg
}

// stream opens a connection without a handshake of AMQP.
func (s target) stream() (net.Conn, error) {
	dial := s.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: eventTimeout}).Dial
	}
	conn, err := dial("tcp", net.JoinHostPort(s.uri.Host, strconv.Itoa(s.uri.Port)))
	if err != nil || s.uri.Scheme != "amqps" {
		return conn, err
	}
	cfg := &tls.Config{}
	if s.TLS != nil {
		cfg = s.TLS.Clone()
	}
	if cfg.ServerName == "" {
		cfg.ServerName = s.uri.Host
	}
	return tls.Client(conn, cfg), nil
}
