package rabbit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/amqpstream"
	"github.com/watershipmq/watership/internal/rabbit/tlsfiles"
)

// dial connects to the first of the broker's nodes that answers, one that was left after the
// others. Goroutines of attempts that came too late belong to work.
func dial(ctx context.Context, cfg Config, work *sync.WaitGroup, left string) (*link, error) {
	nodes, err := cfg.nodes(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(nodes, func(n node) bool { return n.address == left }); i >= 0 {
		nodes = append(slices.Delete(slices.Clone(nodes), i, i+1), nodes[i])
	}
	if len(nodes) == 1 {
		return dialNode(ctx, cfg, nodes[0])
	}
	attempt := func(ctx context.Context, i int) (*link, error) {
		l, err := dialNode(ctx, cfg, nodes[i])
		if l != nil {
			l.others = len(cfg.Nodes) > 0 || !isLoopback(nodes[i].address)
		}
		if err != nil && len(cfg.Nodes) > 0 {
			err = fmt.Errorf("%s: %w", nodes[i].uri.Host, err)
		}
		return l, err
	}
	return race(ctx, work, len(nodes), nextNodeAfter, attempt, (*link).close)
}

// isLoopback reports whether an address is of this machine: localhost has two addresses, and one broker.
func isLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	return net.ParseIP(host).IsLoopback()
}

// dialNode makes one connection attempt: TCP, TLS and AMQP handshake within
// DialTimeout, or until ctx ends.
func dialNode(ctx context.Context, cfg Config, to node) (*link, error) {
	uri := to.uri
	ctx, cancel := context.WithTimeout(ctx, cfg.DialTimeout)
	defer cancel()
	raw, err := openStream(ctx, cfg, to.address)
	if err != nil {
		return nil, err
	}
	// Only closing the stream ends a handshake with a silent broker.
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	stream, err := wrapStream(ctx, cfg, uri, raw)
	if err == nil {
		var conn *amqp.Connection
		conn, err = amqp.DialConfig(withoutTLS(to.url, uri), cfg.amqpConfig(stream))
		if err == nil {
			err = cfg.checkInstance(conn)
		}
		if err == nil && stop() {
			return &link{Connection: conn, stream: stream, node: to.address}, nil
		}
		if reason := stream.ReadError(); errors.Is(err, amqp.ErrClosed) && reason != nil {
			err = reason // the client's error says only that the connection is closed
		}
	}
	stop()
	raw.Close()
	return nil, dialError(ctx, cfg, err)
}

// checkInstance refuses a broker with another Config.Instance, such as the broker
// of another process that listens at the same address now.
func (c Config) checkInstance(conn *amqp.Connection) error {
	if c.Instance == "" || conn.Properties["instance"] == c.Instance {
		return nil
	}
	return errOtherInstance
}

var errOtherInstance = errors.New("another broker listens there now than the one that is meant")

func dialError(ctx context.Context, cfg Config, err error) error {
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		return fmt.Errorf("no AMQP handshake within %v", cfg.DialTimeout)
	case err == nil:
		return ctx.Err()
	case strings.Contains(err.Error(), certificateRequired):
		return errors.New("the broker wants a client certificate: name certfile and keyfile in the URL, or give them in the TLS configuration")
	default:
		return withoutURL(err)
	}
}

// certificateRequired is the TLS alert for a client without a certificate (RFC 8446
// §6.2). It arrives after the client's side of the handshake, so the AMQP client
// returns it, as text.
const certificateRequired = "tls: certificate required"

func openStream(ctx context.Context, cfg Config, addr string) (net.Conn, error) {
	if cfg.Dial != nil {
		return cfg.Dial("tcp", addr)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", addr)
}

// wrapStream wraps the stream in TLS and then in an amqpstream.Conn. The client
// library cannot do the TLS itself, since the latter reads the decrypted stream.
func wrapStream(ctx context.Context, cfg Config, uri amqp.URI, raw net.Conn) (*amqpstream.Conn, error) {
	stream := raw
	if uri.Scheme == "amqps" {
		conf, err := tlsConfig(cfg.TLS, uri)
		if err != nil {
			return nil, err
		}
		secure := tls.Client(raw, conf)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("TLS handshake with %s: %w", uri.Host, err)
		}
		stream = secure
	}
	return amqpstream.New(stream, cfg.LargeFrames), nil
}

// withoutTLS returns the URL with scheme amqp, for a stream that has TLS already.
func withoutTLS(raw string, uri amqp.URI) string {
	u, err := url.Parse(raw)
	if err != nil || uri.Scheme != "amqps" {
		return raw
	}
	u.Scheme = "amqp"
	return u.String()
}

// amqpConfig returns the client library's configuration for one connection on
// stream.
func (c Config) amqpConfig(stream net.Conn) amqp.Config {
	conf := c.AMQP
	conf.Recovery = nil
	conf.FrameSize = 0
	if c.LargeFrames {
		conf.FrameSize = amqp.FrameSizeUnlimited
	}
	conf.Heartbeat = c.Heartbeat
	conf.Properties = maps.Clone(c.AMQP.Properties)
	if conf.Properties == nil {
		conf.Properties = amqp.NewConnectionProperties()
	}
	if c.Name != "" {
		conf.Properties.SetClientConnectionName(c.Name)
	}
	conf.Dial = func(string, string) (net.Conn, error) { return stream, nil }
	return conf
}

// tlsConfig returns a copy of the given configuration, or without one applies
// RabbitMQ's query parameters of the amqps URL
// (https://www.rabbitmq.com/docs/uri-query-parameters).
func tlsConfig(configured *tls.Config, uri amqp.URI) (*tls.Config, error) {
	conf := configured.Clone()
	if conf == nil {
		var err error
		conf, err = tlsfiles.Load(
			tlsfiles.File{Setting: "cacertfile", Path: uri.CACertFile},
			tlsfiles.File{Setting: "certfile", Path: uri.CertFile},
			tlsfiles.File{Setting: "keyfile", Path: uri.KeyFile},
		)
		if err != nil {
			return nil, fmt.Errorf("AMQP URL: %w", err)
		}
		conf.ServerName = uri.ServerName
	}
	if conf.ServerName == "" {
		conf.ServerName = uri.Host
	}
	return conf, nil
}
