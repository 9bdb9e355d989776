// Package rabbit is the AMQP client that every part of Watership shares: a
// connection that comes back for ever, consumers that are opened anew on each
// of its generations, and a publisher whose Publish returns when the broker has
// confirmed the message.
//
// It is built on amqp091-go without that library's own recovery, which reuses
// delivery tags: a late acknowledgement after a reconnect would delete a message
// that nobody has handled. Here each connection and each channel lives once, and
// what belongs to a dead one cannot reach its successor.
//
// Publish and consume on separate connections: a broker short of memory or disk
// stops reading from connections that publish, and acknowledgements would wait
// behind the messages.
package rabbit

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Config says how to reach a broker. Only URL is required.
type Config struct {
	// URL is an AMQP URI (https://www.rabbitmq.com/docs/uri-spec), amqp or amqps,
	// with RabbitMQ's query parameters such as heartbeat and cacertfile.
	URL string

	// TLS is used for amqps. Nil: system roots, or the files that the URL names.
	TLS *tls.Config

	// Name is the connection_name that the broker's management page shows.
	Name string

	// Instance is what the embedded broker says in the instance of its
	// server-properties; a broker that says anything else is not connected to.
	// Empty: any broker.
	Instance string

	// Logger is told of a loss and of a return, once each. Nil: nobody is.
	Logger *slog.Logger

	// Dial opens the byte stream to the broker. Nil: TCP.
	Dial func(network, addr string) (net.Conn, error)

	// DialTimeout bounds one attempt: TCP, TLS and AMQP handshake together, so
	// that a broker which accepts and says nothing is given up. Zero: 10 s.
	DialTimeout time.Duration

	// Heartbeat is proposed to the broker; silence for one and a half times as
	// long ends the connection. Whole seconds; zero: 10 s. A heartbeat in the
	// URL goes before it.
	Heartbeat time.Duration

	// Backoff is the pause between attempts to connect, and between a lost
	// consumer and its successor.
	Backoff Backoff

	// LargeFrames makes the connection accept header frames larger than was
	// negotiated, up to 16 MiB. The broker itself sends such frames, when it adds
	// x-death to headers that were nearly too large already; without this every
	// delivery of that message would end the connection. For connections that
	// consume: what is published on it is not held to the broker's limit.
	LargeFrames bool

	// AMQP is the template for what is not named above: SASL, vhost, channel
	// limit, client properties. FrameSize, Dial and Recovery in it are ignored.
	AMQP amqp.Config
}

const (
	defaultDialTimeout = 10 * time.Second
	defaultHeartbeat   = 10 * time.Second
)

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.DialTimeout <= 0 {
		c.DialTimeout = defaultDialTimeout
	}
	if c.Heartbeat <= 0 {
		c.Heartbeat = c.AMQP.Heartbeat
	}
	if c.Heartbeat <= 0 {
		c.Heartbeat = defaultHeartbeat
	}
	if c.TLS == nil {
		c.TLS = c.AMQP.TLSClientConfig
	}
	c.Backoff = c.Backoff.withDefaults()
	return c
}

// UserID is the user_id that the broker takes from the login of a URL; "" where a client
// certificate decides (auth_mechanism=external), which the client cannot know.
func UserID(uri amqp.URI) string {
	for _, mechanism := range uri.AuthMechanism {
		if strings.EqualFold(mechanism, "external") {
			return ""
		}
	}
	return uri.Username
}

// parseURL checks the URL. Its error never quotes the URL, which holds a password.
func parseURL(raw string) (amqp.URI, error) {
	uri, err := amqp.ParseURI(raw)
	if err != nil {
		return uri, fmt.Errorf("AMQP URL is not valid, expected amqp://user:password@host:port/vhost: %w", withoutURL(err))
	}
	return uri, nil
}
