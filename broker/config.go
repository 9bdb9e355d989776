package broker

import (
	"log/slog"
	"time"
)

// Config configures a broker. The zero value is a broker like RabbitMQ with its default
// configuration, with limits.
type Config struct {
	// Users maps logins to passwords. Nil: guest with the password guest. Every user
	// has all permissions.
	Users map[string]string

	// LoopbackUsers may log in from this machine only, like loopback_users of RabbitMQ.
	// Nil: guest. Empty: no user is restricted.
	LoopbackUsers []string

	// VHosts are the names of the virtual hosts. Empty: "/" only.
	VHosts []string

	// ClusterName is the cluster_name in the server properties. "": watership@embedded.
	ClusterName string

	// Instance is in the server properties, for clients that have to recognise this
	// broker at an address that another broker may have. "": none.
	Instance string

	// Release is the release of RabbitMQ that the broker behaves like. The zero value is
	// the newest.
	Release Release

	// Heartbeat is proposed to clients, in whole seconds (§4.2.7). Zero: 60 s, like
	// RabbitMQ. Negative: none.
	Heartbeat time.Duration

	// Limits are the limits of memory, sizes and numbers.
	Limits Limits

	// Logger logs connections and errors. Nil: nothing is logged.
	Logger *slog.Logger
}

// Limits are the limits of a broker. A field that is zero has its default.
type Limits struct {
	// Memory is the limit in bytes of messages, above which the broker blocks
	// connections that publish (connection.blocked); connections of ListenInternal are
	// blocked at twice as many. Each connection may exceed it by one frame, and one
	// connection at a time by the rest of an unfinished message where unfinished
	// messages alone reach the limit. Default 256 MiB.
	Memory int64

	// Topology is the limit in bytes of the exchanges, queues, bindings and consumers
	// of a virtual host: their names, keys and arguments, and some hundred bytes for
	// each. More is refused with 506. Default 256 MiB.
	Topology int64

	// MessageSize is the limit in bytes of a message body. A larger one is refused with
	// 406. Default 16 MiB, like RabbitMQ 4.
	MessageSize int64

	// FrameMax is proposed to clients, in bytes. Default 131072, like RabbitMQ.
	FrameMax uint32

	// ChannelMax is the limit of channels in a connection. Default 2047, like RabbitMQ.
	ChannelMax uint16

	// Connections is the limit of open connections. One more is refused with 530.
	// Default 1,000.
	Connections int

	// Queues, Exchanges and Bindings are limits for each virtual host. Defaults 10,000,
	// 10,000 and 100,000.
	Queues, Exchanges, Bindings int
}

const (
	defaultHeartbeat = 60 * time.Second
	handshakeTimeout = 10 * time.Second // of the whole handshake, like RabbitMQ's handshake_timeout
	closeTimeout     = 2 * time.Second  // for a client to answer connection.close
)

func (c Config) withDefaults() Config {
	if c.Users == nil {
		c.Users = map[string]string{"guest": "guest"}
	}
	if c.LoopbackUsers == nil {
		c.LoopbackUsers = []string{"guest"}
	}
	if len(c.VHosts) == 0 {
		c.VHosts = []string{"/"}
	}
	if c.ClusterName == "" {
		c.ClusterName = "watership@embedded"
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = defaultHeartbeat
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Limits = c.Limits.withDefaults()
	return c
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Memory:      orDefault(l.Memory, 256<<20),
		Topology:    orDefault(l.Topology, 256<<20),
		MessageSize: orDefault(l.MessageSize, 16<<20),
		FrameMax:    max(orDefault(l.FrameMax, 128<<10), frameMinSize),
		ChannelMax:  orDefault(l.ChannelMax, 2047),
		Connections: orDefault(l.Connections, 1000),
		Queues:      orDefault(l.Queues, 10_000),
		Exchanges:   orDefault(l.Exchanges, 10_000),
		Bindings:    orDefault(l.Bindings, 100_000),
	}
}

func orDefault[T int | int64 | uint16 | uint32](value, byDefault T) T {
	if value <= 0 {
		return byDefault
	}
	return value
}

// heartbeatSeconds returns the heartbeat that is proposed to clients; zero for none.
func (c Config) heartbeatSeconds() uint16 {
	if c.Heartbeat < 0 {
		return 0
	}
	return uint16(min(max(c.Heartbeat/time.Second, 1), 65535))
}
