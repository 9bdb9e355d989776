// Package rabbit is the AMQP client of every part of Watership: a Connection that
// reconnects until it is closed, consumers that are opened again after each
// reconnect, and a Publisher whose Publish returns when the broker has confirmed
// the message.
//
// It uses amqp091-go without the library's automatic recovery, which reuses
// delivery tags: a late acknowledgement after a reconnect would delete another
// message, one that no consumer has handled. Here a connection or channel is never
// reused, and an acknowledgement of a lost channel cannot reach the next one.
//
// Publish and consume on separate connections: a broker short of memory or disk
// stops reading from connections that publish, and so would not read their
// acknowledgements.
package rabbit

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/rabbitmq"
)

// At returns the settings of the connection for a purpose, such as consuming, which its name ends with.
func At(to rabbitmq.Connection, purpose string, logger *slog.Logger) Config {
	return Config{
		URL: to.URL, Nodes: to.Nodes, TLS: to.TLS, Dial: to.Dial, Instance: to.Instance,
		Name: cmp.Or(to.Name, "watership") + " " + purpose, Logger: logger,
	}
}

// Config holds the settings of a Connection. Only URL is required.
type Config struct {
	// URL is an AMQP URI (https://www.rabbitmq.com/docs/uri-spec), amqp or amqps,
	// with RabbitMQ's query parameters such as heartbeat and cacertfile.
	URL string

	// Nodes are further nodes of the cluster as host:port, to which the rest of URL applies. Each
	// attempt to connect tries them and the host of URL in random order.
	Nodes []string

	// TLS configures amqps. Nil: system roots, or the files named in the URL.
	TLS *tls.Config

	// Name is the connection_name shown on RabbitMQ's management page.
	Name string

	// Instance is the value of "instance" that the broker's server-properties must
	// have; a broker with any other value is refused. Only the embedded broker sends
	// it. Empty: any broker.
	Instance string

	// Logger logs each connection loss and each reconnect once. Nil: no log.
	Logger *slog.Logger

	// Dial opens the byte stream to the broker. Nil: TCP.
	Dial func(network, addr string) (net.Conn, error)

	// Lookup returns the addresses of a host name. Nil: as the system does. A Dial looks names up itself.
	Lookup func(ctx context.Context, host string) ([]string, error)

	// DialTimeout bounds one connection attempt at one node: TCP, TLS and AMQP handshake together.
	// A broker that accepts and then sends nothing is disconnected. Zero: 10 s.
	DialTimeout time.Duration

	// Heartbeat is the interval proposed to the broker; silence for one and a half
	// intervals ends the connection. Whole seconds; zero: 10 s. A heartbeat in the URL
	// takes precedence.
	Heartbeat time.Duration

	// Backoff is the pause between connection attempts, and before a lost consumer is
	// opened again. Zero: from 100 ms to 10 s.
	Backoff backoff.Backoff

	// LargeFrames makes the connection accept header frames larger than negotiated, up
	// to 16 MiB. The broker sends such frames when it adds x-death to headers close to
	// the limit; without LargeFrames every delivery of that message ends the
	// connection. For consuming connections only: the client does not enforce the
	// broker's frame-max on messages published here.
	LargeFrames bool

	// AMQP holds the remaining settings: SASL, vhost, channel limit, client properties.
	// Its FrameSize, Dial and Recovery are ignored.
	AMQP amqp.Config
}

const (
	defaultDialTimeout = 10 * time.Second
	defaultHeartbeat   = 10 * time.Second
	defaultBackoffMin  = 100 * time.Millisecond
	defaultBackoffMax  = 10 * time.Second

	// A connection or consumer that lived at least this long resets the backoff. A
	// shorter life may end for the same cause each time.
	healthyAfter = 10 * time.Second
)

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Lookup == nil {
		c.Lookup = net.DefaultResolver.LookupHost
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
	if c.Backoff.Min <= 0 {
		c.Backoff.Min = defaultBackoffMin
	}
	if c.Backoff.Max <= 0 {
		c.Backoff.Max = defaultBackoffMax
	}
	c.Backoff.Max = max(c.Backoff.Max, c.Backoff.Min)
	return c
}

// UserID returns the user_id that the broker derives from the login in a URL; ""
// with auth_mechanism=external, where the client certificate determines the user
// and the client cannot know it.
func UserID(uri amqp.URI) string {
	for _, mechanism := range uri.AuthMechanism {
		if strings.EqualFold(mechanism, "external") {
			return ""
		}
	}
	return uri.Username
}

// IsList reports whether a text has several URLs, or a URL several hosts. A list of brokers parses as
// a URL whose virtual host has the other URLs, with their passwords.
func IsList(url string) bool {
	_, rest, _ := strings.Cut(url, "://")
	rest, _, _ = strings.Cut(rest, "?")
	return strings.Contains(rest, "://") || strings.Contains(rest[strings.LastIndex(rest, "@")+1:], ",")
}

// parseURL parses the URL. Its error never quotes the URL, which holds a password.
func parseURL(raw string) (amqp.URI, error) {
	if IsList(raw) {
		return amqp.URI{}, errors.New("AMQP URL is not valid: expected one URL; the other nodes of a cluster are named in Nodes, as host:port")
	}
	uri, err := amqp.ParseURI(raw)
	if err != nil {
		return uri, fmt.Errorf("AMQP URL is not valid, expected amqp://user:password@host:port/vhost: %w", withoutURL(err))
	}
	return uri, nil
}
