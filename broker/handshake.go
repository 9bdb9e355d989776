package broker

import (
	"bytes"
	"encoding/binary"
	"io"
	"time"
)

const protocolHeader = "AMQP\x00\x00\x09\x01" // §4.2.2

// handshake performs the handshake up to connection.open-ok (§2.2.4).
func (c *connection) handshake() error {
	for _, step := range []func() error{c.start, c.login, c.tune, c.open} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// start checks the protocol header, answers another protocol with AMQP 0-9-1, and sends
// connection.start.
func (c *connection) start() error {
	header, err := c.in.peek(len(protocolHeader))
	if err != nil {
		return err
	}
	c.in.returned = len(protocolHeader)
	if string(header) != protocolHeader {
		c.out.protocolHeader([]byte(protocolHeader))
		c.log.Info("connection refused", "reason", "not AMQP 0-9-1")
		return errConnectionEnded
	}
	c.out.method(0, connectionStart, func(b []byte) []byte {
		b = append(b, 0, 9)
		b = appendLongstr(b, string(c.broker.serverProperties()))
		b = appendLongstr(b, "PLAIN AMQPLAIN")
		return appendLongstr(b, "en_US")
	})
	return nil
}

func (b *Broker) serverProperties() table {
	var can table
	for _, capability := range []string{
		"publisher_confirms", "exchange_exchange_bindings", "basic.nack",
		"consumer_cancel_notify", "connection.blocked", "consumer_priorities",
		"authentication_failure_close", "per_consumer_qos", "direct_reply_to",
	} {
		can = can.withBool(capability, true)
	}
	properties := table(nil).
		withTable("capabilities", can).
		withText("cluster_name", b.cfg.ClusterName)
	if b.cfg.Instance != "" {
		properties = properties.withText("instance", b.cfg.Instance)
	}
	return properties.
		withText("information", "Embedded broker of Watership; keeps messages in memory only").
		withText("platform", "Go").
		withText("product", "Watership").
		withText("version", b.cfg.Release.Version())
}

// expect reads the next method, which has to be a given one, and skips heartbeats.
func (c *connection) expect(want methodID) (decoder, error) {
	f, err := c.in.next()
	for err == nil && f.kind == frameHeartbeat && f.channel == 0 {
		f, err = c.in.next()
	}
	if err != nil {
		return decoder{}, err
	}
	if f.kind != frameMethod || f.channel != 0 {
		return decoder{}, newException(unexpectedFrame, "expected method frame on channel 0")
	}
	id, args, refused := parseMethod(f)
	switch {
	case refused != nil:
		return decoder{}, refused
	case id == connectionClose:
		c.out.closeWith(connectionCloseOK, nil)
		return decoder{}, errClosedByClient
	case id == connectionCloseOK:
		return decoder{}, io.EOF
	case id != want:
		return decoder{}, newException(commandInvalid, "unexpected method %v during the handshake", id)
	}
	return args, nil
}

func (c *connection) login() error {
	args, err := c.expect(connectionStartOK)
	if err != nil {
		return err
	}
	client, mechanism, response := args.table(), args.shortstr(), args.longstr()
	if args.bad {
		return newException(syntaxError, "connection.start-ok cannot be read")
	}
	if err := client.validate(); err != nil {
		return err
	}
	if capabilities, there := client.lookup("capabilities"); there && capabilities.kind == 'F' {
		c.capabilities = bytes.Clone(capabilities.raw)
	}
	if len(client) <= maxClientProperties {
		c.client = bytes.Clone(client)
	}
	return c.authenticate(mechanism, response)
}

// maxClientProperties is the limit in bytes of client properties that the management
// API shows.
const maxClientProperties = 16 << 10

func (c *connection) tune() error {
	limits := c.broker.cfg.Limits
	c.out.method(0, connectionTune, func(b []byte) []byte {
		b = binary.BigEndian.AppendUint16(b, limits.ChannelMax)
		b = binary.BigEndian.AppendUint32(b, limits.FrameMax)
		return binary.BigEndian.AppendUint16(b, c.broker.cfg.heartbeatSeconds())
	})
	args, err := c.expect(connectionTuneOK)
	if err != nil {
		return err
	}
	channelMax, frameMax, heartbeat := args.short(), args.long(), args.short()
	if args.bad {
		return newException(syntaxError, "connection.tune-ok cannot be read")
	}
	if c.channelMax, err = checkTuning("channel_max", uint32(channelMax), uint32(limits.ChannelMax), 0); err != nil {
		return err
	}
	if c.frameMax, err = checkTuning("frame_max", frameMax, limits.FrameMax, frameMinSize); err != nil {
		return err
	}
	c.applyTuning(time.Duration(heartbeat) * time.Second)
	return nil
}

// checkTuning checks a value of tune-ok. No limit (0) is more than was proposed.
func checkTuning(what string, chosen, proposed, least uint32) (uint32, error) {
	switch {
	case chosen == 0:
		return 0, newException(notAllowed, "negotiated %s = 0 (no limit) is higher than the maximum allowed value (%d)", what, proposed)
	case chosen < least:
		return 0, newException(notAllowed, "negotiated %s = %d is lower than the minimum allowed value (%d)", what, chosen, least)
	case chosen > proposed:
		return 0, newException(notAllowed, "negotiated %s = %d is higher than the maximum allowed value (%d)", what, chosen, proposed)
	}
	return chosen, nil
}

func (c *connection) applyTuning(heartbeat time.Duration) {
	c.in.max = c.frameMax
	c.out.mu.Lock()
	c.out.frameMax = c.frameMax
	c.out.mu.Unlock()
	c.heartbeat, c.readTimeout = heartbeat, 2*heartbeat
	if heartbeat > 0 {
		c.heartbeatInterval <- heartbeat
	}
}

func (c *connection) open() error {
	args, err := c.expect(connectionOpen)
	if err != nil {
		return err
	}
	name := args.shortstr()
	vhost, there := c.broker.vhosts[name]
	if !there {
		return newException(notAllowed, "vhost %s not found", name)
	}
	c.vhost = vhost
	if !c.broker.admit(c) {
		return newException(notAllowed, "connection refused: node connection limit (%d) is reached", c.broker.cfg.Limits.Connections)
	}
	c.out.method(0, connectionOpenOK, func(b []byte) []byte { return appendShortstr(b, "") })
	c.log.Info("connection opened", "vhost", name)
	return nil
}
