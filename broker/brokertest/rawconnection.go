package brokertest

import (
	"encoding/binary"
	"io"
	"net"
	"time"
)

// rawConnection is a connection on which a case sends and reads frames itself.
type rawConnection struct {
	probe *probe
	conn  net.Conn
}

// dialRaw connects without a handshake.
func (p *probe) dialRaw() *rawConnection {
	p.Helper()
	conn, err := p.target.stream()
	p.must(err)
	p.Cleanup(func() { _ = conn.Close() })
	p.must(conn.SetDeadline(time.Now().Add(eventTimeout)))
	return &rawConnection{p, conn}
}

// openRaw connects with a handshake: frame-max 131072 and no heartbeat.
func (p *probe) openRaw() *rawConnection {
	p.Helper()
	w := p.dialRaw()
	w.login("PLAIN", p.plainResponse(), "")
	w.expect(0, 10, 30)
	w.send(0, 10, 31, "short", 100, "long", 131072, "short", 0)
	w.send(0, 10, 40, "shortstr", p.target.uri.Vhost, "octet", 0, "octet", 0)
	w.expect(0, 10, 41)
	return w
}

// login performs the handshake up to start-ok. properties are encoded.
func (w *rawConnection) login(mechanism, response, properties string) {
	w.probe.Helper()
	w.write("AMQP\x00\x00\x09\x01")
	w.expect(0, 10, 10)
	w.send(0, 10, 11, "table", properties, "shortstr", mechanism, "longstr", response, "shortstr", "en_US")
}

func (w *rawConnection) openChannel(id uint16) {
	w.probe.Helper()
	w.send(id, 20, 10, "octet", 0)
	w.expect(id, 20, 11)
}

func (w *rawConnection) write(b string) {
	w.probe.Helper()
	_, err := io.WriteString(w.conn, b)
	w.probe.must(err)
}

// send sends a method whose arguments are pairs of a type and a value. The value of a
// table is encoded.
func (w *rawConnection) send(channel, class, method uint16, args ...any) {
	w.probe.Helper()
	w.frame(1, channel, arguments(class, method, args...))
}

func arguments(class, method uint16, args ...any) string {
	b := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, class), method)
	for i := 0; i < len(args); i += 2 {
		switch kind, value := args[i], args[i+1]; kind {
		case "octet":
			b = append(b, byte(value.(int)))
		case "short":
			b = binary.BigEndian.AppendUint16(b, uint16(value.(int)))
		case "long":
			b = binary.BigEndian.AppendUint32(b, uint32(value.(int)))
		case "longlong":
			b = binary.BigEndian.AppendUint64(b, uint64(value.(int)))
		case "shortstr":
			b = append(append(b, byte(len(value.(string)))), value.(string)...)
		case "longstr", "table":
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(value.(string)))), value.(string)...)
		}
	}
	return string(b)
}

func (w *rawConnection) frame(kind byte, channel uint16, payload string) {
	w.probe.Helper()
	w.write(frameBytes(kind, channel, payload))
}

func frameBytes(kind byte, channel uint16, payload string) string {
	b := append([]byte{kind}, byte(channel>>8), byte(channel))
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	return string(b) + payload + "\xCE"
}

// publish sends a whole message; properties are encoded, with their flags.
func (w *rawConnection) publish(channel uint16, key, properties, body string) {
	w.probe.Helper()
	w.send(channel, 60, 40, "short", 0, "shortstr", "", "shortstr", key, "octet", 0)
	w.header(channel, uint64(len(body)), properties)
	if body != "" {
		w.frame(3, channel, body)
	}
}

func (w *rawConnection) header(channel uint16, size uint64, properties string) {
	w.probe.Helper()
	b := binary.BigEndian.AppendUint64([]byte{0, 60, 0, 0}, size)
	w.frame(2, channel, string(b)+properties)
}

// read reads the next frame that is not a heartbeat.
func (w *rawConnection) read() (kind byte, channel uint16, payload []byte, err error) {
	for {
		head := make([]byte, 7)
		if _, err := io.ReadFull(w.conn, head); err != nil {
			return 0, 0, nil, err
		}
		payload = make([]byte, binary.BigEndian.Uint32(head[3:])+1)
		if _, err := io.ReadFull(w.conn, payload); err != nil {
			return 0, 0, nil, err
		}
		if head[0] != 8 {
			return head[0], binary.BigEndian.Uint16(head[1:]), payload[:len(payload)-1], nil
		}
	}
}

// method reads a method of a channel.
func (w *rawConnection) method(channel uint16) (class, method uint16, args []byte) {
	w.probe.Helper()
	kind, on, payload, err := w.read()
	w.probe.must(err)
	if kind != 1 || on != channel {
		w.probe.Fatalf("frame of type %d on channel %d, want a method on channel %d", kind, on, channel)
	}
	return binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:]), payload[4:]
}

func (w *rawConnection) expect(channel, class, method uint16) []byte {
	w.probe.Helper()
	gotClass, gotMethod, args := w.method(channel)
	if gotClass != class || gotMethod != method {
		w.probe.Fatalf("method %d.%d %q, want %d.%d", gotClass, gotMethod, args, class, method)
	}
	return args
}

// readClose reads up to connection.close or channel.close, and answers it.
func (w *rawConnection) readClose(channel uint16) (code int, text string) {
	w.probe.Helper()
	class, method := uint16(10), uint16(50)
	if channel != 0 {
		class, method = 20, 40
	}
	args := w.expect(channel, class, method)
	w.send(channel, class, method+1)
	return int(binary.BigEndian.Uint16(args)), string(args[3 : 3+args[2]])
}

// expectEnd waits until the broker has closed the stream.
func (w *rawConnection) expectEnd() {
	w.probe.Helper()
	for {
		if _, _, _, err := w.read(); err != nil {
			return
		}
	}
}
