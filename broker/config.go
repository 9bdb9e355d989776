package broker

import (
	"log/slog"
	"time"
)

// Config says how a broker is to be. The zero value is a broker like RabbitMQ with
// its defaults, but bounded.
type Config struct {
	// Users are passwords by login. Nil: guest with the password guest. Every
	// user may do everything.
	Users map[string]string

	// LoopbackUsers may log in from this machine only, as RabbitMQ's
	// loopback_users. Nil: guest. Empty: nobody is confined.
	LoopbackUsers []string

	// VHosts are the virtual hosts. Nil: "/" only.
	VHosts []string

	// ClusterName is how the broker calls itself. "": watership@embedded.
	ClusterName string

	// Instance is in the server-properties, for clients that must not take another
	// broker at the same address for this one. "": none.
	Instance string

	// Heartbeat is proposed to clients, in whole seconds (§4.2.7). Zero: 60 s, as
	// RabbitMQ does. Negative: none.
	Heartbeat time.Duration

	// Limits bound what clients can make the broker keep.
	Limits Limits

	// Logger is told of connections, and of what goes wrong. Nil: nothing is logged.
	Logger *slog.Logger
}

// Limits bound the broker. Zero is the default of each.
type Limits struct {
	// Memory is how many bytes of messages are kept before publishers are
	// stopped (connection.blocked); those of ListenInternal at twice as many. It is
	// exceeded by at most one frame for each connection, and by the rest of one
	// unfinished message where such messages alone are too much. Default 256 MiB.
	Memory int64

	// Topology is how many bytes a virtual host's exchanges, queues, bindings and
	// consumers may take: their names, keys and arguments, and some hundred bytes
	// for each. More is refused with 506. Default 256 MiB.
	Topology int64

	// MessageSize is the greatest body in bytes; a greater one is refused with 406.
	// Default 16 MiB, as RabbitMQ 4.
	MessageSize int64

	// FrameMax is proposed to clients, in bytes. Default 131072, as RabbitMQ.
	FrameMax uint32

	// ChannelMax is the number of channels of one connection. Default 2047.
	ChannelMax uint16

	// Connections is the number of connections at a time; one more is refused with
	// 530. Default 1,000.
	Connections int

	// Queues, Exchanges and Bindings are how many there may be in a virtual host.
	// Defaults 10,000, 10,000 and 100,000.
	Queues, Exchanges, Bindings int
}

// Version is the version of RabbitMQ whose behaviour the broker follows, and which
// it tells clients that ask for one.
const Version = "4.0.5"

const (
	defaultHeartbeat = 60 * time.Second
	handshakeTimeout = 10 * time.Second // of all of it, as RabbitMQ's handshake_timeout
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

// heartbeatSeconds is what is proposed to clients; zero is none.
func (c Config) heartbeatSeconds() uint16 {
	if c.Heartbeat < 0 {
		return 0
	}
	return uint16(min(max(c.Heartbeat/time.Second, 1), 65535))
}
