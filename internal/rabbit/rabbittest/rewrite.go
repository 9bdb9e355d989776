package rabbittest

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"
)

// rewriteFrame rewrites a frame (AMQP 0-9-1 §4.2.3): it returns the bytes to forward in
// place of one frame, which may be none or several frames.
type rewriteFrame func(frame []byte) []byte

// Rewrite starts a proxy for the broker that applies down to each frame sent to the
// client, as message interceptors change messages. It returns the broker's URL
// through the proxy, which stops when the test ends.
func (a Address) Rewrite(t testing.TB, down func(frame []byte) []byte) string {
	t.Helper()
	same := func(frame []byte) []byte { return frame }
	return a.startProxy(t, func() (rewriteFrame, rewriteFrame) { return same, down })
}

// RewriteSent starts a proxy like Rewrite, but for frames sent to the broker.
func (a Address) RewriteSent(t testing.TB, up func(frame []byte) []byte) string {
	t.Helper()
	same := func(frame []byte) []byte { return frame }
	return a.startProxy(t, func() (rewriteFrame, rewriteFrame) { return up, same })
}

// RewriteSentByEach is RewriteSent with a function for each connection.
func (a Address) RewriteSentByEach(t testing.TB, new func() (up func(frame []byte) []byte)) string {
	t.Helper()
	same := func(frame []byte) []byte { return frame }
	return a.startProxy(t, func() (rewriteFrame, rewriteFrame) { return new(), same })
}

// IsMethod reports whether a frame has a method (AMQP 0-9-1 §1.8).
func IsMethod(frame []byte, class, method uint16) bool {
	return frame[0] == methodFrame && binary.BigEndian.Uint16(frame[frameStart:]) == class && binary.BigEndian.Uint16(frame[frameStart+2:]) == method
}

// startProxy starts a proxy and calls new for each connection: up rewrites the frames
// sent to the broker, down those sent to the client.
func (a Address) startProxy(t testing.TB, new func() (up, down rewriteFrame)) string {
	t.Helper()
	u, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	broker := u.Host
	u.Host = listener.Addr().String()
	var open sync.WaitGroup
	open.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() { proxyConnection(client, broker, new) })
		}
	})
	t.Cleanup(func() { // runs after the test's connections are closed, which ends the copying
		listener.Close()
		open.Wait()
	})
	return u.String()
}

func proxyConnection(client net.Conn, broker string, new func() (up, down rewriteFrame)) {
	defer client.Close()
	server, err := net.Dial("tcp", broker)
	if err != nil {
		return
	}
	up, down := new()
	var upwards sync.WaitGroup
	upwards.Go(func() {
		defer server.Close()
		const greeting = 8 // the protocol header, AMQP 0-9-1 §4.2.2
		if _, err := io.CopyN(server, client, greeting); err == nil {
			forwardFrames(client, server, up)
		}
	})
	forwardFrames(server, client, down)
	client.Close()
	upwards.Wait()
}

func forwardFrames(from io.Reader, to io.Writer, rewrite rewriteFrame) {
	for {
		frame := make([]byte, frameStart)
		if _, err := io.ReadFull(from, frame); err != nil {
			return
		}
		frame = slices.Grow(frame, int(binary.BigEndian.Uint32(frame[3:]))+1)[:frameStart+int(binary.BigEndian.Uint32(frame[3:]))+1]
		if _, err := io.ReadFull(from, frame[frameStart:]); err != nil {
			return
		}
		if _, err := to.Write(rewrite(frame)); err != nil {
			return
		}
	}
}

const (
	frameStart    = 7 // type, channel, size
	methodFrame   = 1
	contentHeader = 2
	flagsAt       = frameStart + 2 + 2 + 8 // after class, weight, body size
	flagHeaders   = 0x2000
)

// AddHeader adds a header with an encoded value, field type first, to a content
// header frame (AMQP 0-9-1 §4.2.6.1). Clients decode it in place of an existing
// header of that name. Other frames stay unchanged.
func AddHeader(frame []byte, name, value string) []byte {
	if frame[0] != contentHeader {
		return frame
	}
	entry := string([]byte{byte(len(name))}) + name + value
	start, table, rest := splitContentHeader(frame)
	changed := append([]byte(nil), start...)
	changed = binary.BigEndian.AppendUint32(changed, uint32(len(entry)+len(table)))
	changed = append(append(append(changed, table...), entry...), rest...)
	binary.BigEndian.PutUint16(changed[flagsAt:], binary.BigEndian.Uint16(frame[flagsAt:])|flagHeaders)
	binary.BigEndian.PutUint32(changed[3:], uint32(len(changed)-frameStart-1))
	return changed
}

// HeaderTable returns the encoded headers of a content header frame; false for other
// frames.
func HeaderTable(frame []byte) ([]byte, bool) {
	if frame[0] != contentHeader {
		return nil, false
	}
	_, table, _ := splitContentHeader(frame)
	return table, true
}

// splitContentHeader splits a frame before and after its headers; table has no length.
func splitContentHeader(frame []byte) (start, table, rest []byte) {
	flags := binary.BigEndian.Uint16(frame[flagsAt:])
	at := flagsAt + 2
	for _, text := range [...]uint16{0x8000, 0x4000} { // content type and encoding precede headers
		if flags&text != 0 {
			at += 1 + int(frame[at])
		}
	}
	if flags&flagHeaders == 0 {
		return frame[:at], nil, frame[at:]
	}
	size := int(binary.BigEndian.Uint32(frame[at:]))
	return frame[:at], frame[at+4 : at+4+size], frame[at+4+size:]
}

// SetFrameMax sets frame-max in connection.tune (AMQP 0-9-1 §1.4.2.5). Other frames
// stay unchanged.
func SetFrameMax(frame []byte, frameMax uint32) []byte {
	const tune = "\x00\x0a\x00\x1e" // class 10, method 30; then the channel limit, 2 bytes
	if frame[0] == methodFrame && string(frame[frameStart:frameStart+4]) == tune {
		binary.BigEndian.PutUint32(frame[frameStart+6:], frameMax)
	}
	return frame
}

// SetTimestamp sets timestamp_in_ms to a new value in each frame, as RabbitMQ does
// if message_interceptors.incoming.set_header_timestamp is configured to overwrite
// it.
func SetTimestamp(frame []byte) []byte {
	now := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))
	return AddHeader(frame, "timestamp_in_ms", "l"+string(now))
}
