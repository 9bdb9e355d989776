package brokertest

import (
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func handshakes() []behaviour {
	return []behaviour{
		{name: "server properties", check: serverProperties},
		{name: "proposals", check: tuneProposals},
		{name: "the client's choices count", check: tuneChoices},
		{name: "no limits are too much", check: func(p *probe) { p.badTuning(0, 131072); p.badTuning(100, 0) }},
		{name: "frame-max is within bounds", check: func(p *probe) { p.badTuning(100, 200000); p.badTuning(100, 1000) }},
		{name: "wrong password", check: wrongPassword},
		{name: "mechanisms", check: loginMechanisms},
		{name: "AMQPLAIN", check: loginAMQPLAIN},
		{name: "AMQPLAIN with a wrong password", check: loginAMQPLAINWrongPassword},
		{name: "AMQPLAIN without a password", check: refusedLogin("AMQPLAIN", "\x05LOGINS"+longstr("guest"))},
		{name: "AMQPLAIN of numbers", check: refusedLogin("AMQPLAIN", "\x05LOGINI\x00\x00\x00\x00\x08PASSWORDS"+longstr("guest"))},
		{name: "AMQPLAIN that cannot be read", check: refusedLogin("AMQPLAIN", "\x05LOGINS\x00\x00\xFF")},
		{name: "PLAIN that cannot be read", check: refusedLogin("PLAIN", "guest")},
		{name: "unknown mechanism", check: refusedLogin("ODD", "")},
		{name: "a new secret", check: updateSecret},
		{name: "heartbeats during the handshake", check: handshakeHeartbeats},
		{name: "unknown virtual host", check: unknownVHost},
		{name: "another protocol", check: anotherProtocol},
		{name: "heartbeats from the broker", check: brokerHeartbeats},
		{name: "a client may write until it has read close-ok", check: writeUntilCloseOK},
		{name: "silence ends the connection", check: missedHeartbeats},
	}
}

func serverProperties(p *probe) {
	name, _ := p.conn.Properties["cluster_name"].(string)
	p.wantEqual("a cluster name", name != "", true)
	can, _ := p.conn.Properties["capabilities"].(amqp.Table)
	for _, capability := range []string{
		"publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify",
		"connection.blocked", "consumer_priorities", "authentication_failure_close", "per_consumer_qos",
	} {
		p.wantEqual(capability, can[capability], any(true))
	}
}

func tuneProposals(p *probe) {
	w := p.dialRaw()
	w.login("PLAIN", p.plainResponse(), "")
	p.wantEqual("tune", w.expect(0, 10, 30), []byte{7, 255, 0, 2, 0, 0, 0, 60})
}

func tuneChoices(p *probe) {
	conn := p.target.connect(p.T, amqp.Config{FrameSize: 4096 * 2, ChannelMax: 5, Heartbeat: 7 * time.Second})
	defer conn.Close()
	p.wantEqual("tuning", []any{conn.Config.FrameSize, conn.Config.ChannelMax, conn.Config.Heartbeat}, []any{8192, uint16(5), 7 * time.Second})
	ch, err := conn.Channel()
	p.must(err)
	q := p.queue(nil)
	p.publish("", q, amqp.Publishing{Body: make([]byte, 100_000)})
	d := p.getWith(ch, q, true)
	p.wantEqual("length", len(d.Body), 100_000)
}

func wrongPassword(p *probe) {
	w := p.dialRaw()
	w.login("PLAIN", "\x00"+p.username()+"\x00wrong", closesOnFailure)
	code, text := w.readClose(0)
	p.wantEqual("exception", []any{code, text}, []any{403, "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile."})
}

func loginMechanisms(p *probe) {
	w := p.dialRaw()
	w.write("AMQP\x00\x00\x09\x01")
	args := w.expect(0, 10, 10)
	rest := args[2:]
	rest = rest[4+binary.BigEndian.Uint32(rest):] // server-properties
	mechanisms := strings.Fields(string(rest[4 : 4+binary.BigEndian.Uint32(rest)]))
	for _, mechanism := range []string{"PLAIN", "AMQPLAIN"} {
		p.wantEqual(mechanism, slices.Contains(mechanisms, mechanism), true)
	}
}

func loginAMQPLAIN(p *probe) {
	conn := p.target.connect(p.T, amqp.Config{SASL: []amqp.Authentication{&amqp.AMQPlainAuth{Username: p.username(), Password: p.target.uri.Password}}})
	p.must(conn.Close())
}

func loginAMQPLAINWrongPassword(p *probe) {
	w := p.dialRaw()
	w.login("AMQPLAIN", "\x05LOGINS"+longstr(p.username())+"\x08PASSWORDS"+longstr("wrong"), closesOnFailure)
	code, text := w.readClose(0)
	p.wantEqual("exception", []any{code, text}, []any{403, "ACCESS_REFUSED - Login was refused using authentication mechanism AMQPLAIN. For details see the broker logfile."})
}

func updateSecret(p *probe) {
	p.must(p.conn.UpdateSecret(p.target.uri.Password, "it is time"))
	p.must(p.conn.UpdateSecret("anything", "an internal login has none that ends"))
	p.queue(nil)
}

func handshakeHeartbeats(p *probe) {
	w := p.dialRaw()
	w.write("AMQP\x00\x00\x09\x01")
	w.expect(0, 10, 10)
	w.frame(8, 0, "")
	w.send(0, 10, 11, "table", "", "shortstr", "PLAIN", "longstr", p.plainResponse(), "shortstr", "en_US")
	w.expect(0, 10, 30)
	w.frame(8, 0, "")
	w.send(0, 10, 31, "short", 100, "long", 131072, "short", 0)
	w.frame(8, 0, "")
	w.send(0, 10, 40, "shortstr", p.target.uri.Vhost, "octet", 0, "octet", 0)
	w.expect(0, 10, 41)
}

func unknownVHost(p *probe) {
	w := p.dialRaw()
	w.login("PLAIN", p.plainResponse(), "")
	w.expect(0, 10, 30)
	w.send(0, 10, 31, "short", 100, "long", 131072, "short", 0)
	w.send(0, 10, 40, "shortstr", "nowhere", "octet", 0, "octet", 0)
	code, text := w.readClose(0)
	p.wantEqual("exception", []any{code, text}, []any{530, "NOT_ALLOWED - vhost nowhere not found"})
}

func anotherProtocol(p *probe) {
	w := p.dialRaw()
	w.write("AMQP\x00\x00\x08\x00")
	answer := make([]byte, 8)
	_, err := io.ReadFull(w.conn, answer)
	p.must(err)
	p.wantEqual("answer", string(answer[:4]), "AMQP") // and its version
	w.expectEnd()
}

func brokerHeartbeats(p *probe) {
	w := p.dialRaw()
	w.login("PLAIN", p.plainResponse(), "")
	w.expect(0, 10, 30)
	w.send(0, 10, 31, "short", 100, "long", 131072, "short", 1)
	w.send(0, 10, 40, "shortstr", p.target.uri.Vhost, "octet", 0, "octet", 0)
	w.expect(0, 10, 41)
	frame := make([]byte, 8)
	_, err := io.ReadFull(w.conn, frame)
	p.must(err)
	p.wantEqual("frame", frame, []byte{8, 0, 0, 0, 0, 0, 0, 0xCE})
}

func writeUntilCloseOK(p *probe) {
	w := p.openRaw()
	w.send(0, 10, 50, "short", 200, "shortstr", "bye", "short", 0, "short", 0)
	w.expect(0, 10, 51)
	for range 20 { // like a client whose other thread has not read close-ok
		w.frame(8, 0, "")
		time.Sleep(5 * time.Millisecond)
	}
}

func missedHeartbeats(p *probe) {
	w := p.dialRaw()
	w.login("PLAIN", p.plainResponse(), "")
	w.expect(0, 10, 30)
	w.send(0, 10, 31, "short", 100, "long", 131072, "short", 1)
	w.send(0, 10, 40, "shortstr", p.target.uri.Vhost, "octet", 0, "octet", 0)
	w.expect(0, 10, 41)
	start := time.Now()
	w.expectEnd()
	if took := time.Since(start); took < time.Second || took > 10*time.Second {
		p.Errorf("ended after %v", took)
	}
}

// closesOnFailure are the client properties with authentication_failure_close.
const closesOnFailure = "\x0ccapabilitiesF\x00\x00\x00\x1f\x1cauthentication_failure_closet\x01"

// refusedLogin fails unless the connection ends after this start-ok. RabbitMQ sends no
// error, package broker does.
func refusedLogin(mechanism, response string) func(p *probe) {
	return func(p *probe) {
		w := p.dialRaw()
		w.login(mechanism, response, closesOnFailure)
		w.expectEnd()
	}
}

// badTuning fails unless the connection ends after this tune-ok. RabbitMQ sends no
// error, package broker does.
func (p *probe) badTuning(channelMax, frameMax int) {
	p.Helper()
	w := p.dialRaw()
	w.login("PLAIN", p.plainResponse(), "")
	w.expect(0, 10, 30)
	w.send(0, 10, 31, "short", channelMax, "long", frameMax, "short", 0)
	w.expectEnd()
}
