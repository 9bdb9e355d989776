package brokertest

import (
	"strings"
)

// frames checks that a malformed frame ends its connection, and no other.
func frames() []behaviour {
	malformed := func(code int, text string, f func(w *rawConnection)) func(p *probe) {
		return func(p *probe) {
			w := p.openRaw()
			w.openChannel(1)
			f(w)
			got, words := w.readClose(0)
			p.wantEqual("code", got, code)
			if !strings.HasPrefix(words, text) {
				p.Errorf("text is %q, want %q", words, text)
			}
			w.expectEnd()
			p.queue(nil) // another connection goes on
		}
	}
	return []behaviour{
		{name: "bad frame end", check: malformed(501, "FRAME_ERROR - type 1, all octets = <<0,20,0,10,0>>: {invalid_frame_end_marker,0}", func(w *rawConnection) {
			b := frameBytes(1, 2, arguments(20, 10, "octet", 0))
			w.write(b[:len(b)-1] + "\x00")
		})},
		{name: "frame too large", check: malformed(501, "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,131073,131064}", func(w *rawConnection) {
			w.write("\x03\x00\x01\x00\x02\x00\x01")
		})},
		{name: "unknown frame type", check: malformed(501, "FRAME_ERROR - type 9, ", func(w *rawConnection) { w.frame(9, 1, "what") })},
		{name: "method too short", check: malformed(501, "FRAME_ERROR - type 1, all octets = <<0,1>>: unknown_frame", func(w *rawConnection) { w.frame(1, 1, "\x00\x01") })},
		{name: "content on channel 0", check: malformed(505, `UNEXPECTED_FRAME - type 3, all octets = <<"aa">>`, func(w *rawConnection) { w.frame(3, 0, "aa") })},
		{name: "heartbeat on another channel", check: malformed(505, "UNEXPECTED_FRAME - type 8, all octets = <<>>", func(w *rawConnection) { w.frame(8, 1, "") })},
		{name: "header without publish", check: malformed(505, "UNEXPECTED_FRAME - expected method frame, got non method frame instead", func(w *rawConnection) {
			w.header(1, 0, "\x00\x00")
		})},
		{name: "body without publish", check: malformed(505, "UNEXPECTED_FRAME - expected method frame, got non method frame instead", func(w *rawConnection) {
			w.frame(3, 1, "body")
		})},
		{name: "method in place of a header", check: malformed(505, "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead", func(w *rawConnection) {
			w.send(1, 60, 40, "short", 0, "shortstr", "", "shortstr", "q", "octet", 0)
			w.send(1, 60, 80, "longlong", 1, "octet", 0)
		})},
		{name: "method in place of a body", check: malformed(505, "UNEXPECTED_FRAME - expected content body, got non content body frame instead", func(w *rawConnection) {
			w.send(1, 60, 40, "short", 0, "shortstr", "", "shortstr", "q", "octet", 0)
			w.header(1, 10, "\x00\x00")
			w.send(1, 60, 80, "longlong", 1, "octet", 0)
		})},
		{name: "header of another class", check: malformed(505, "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead", func(w *rawConnection) {
			w.send(1, 60, 40, "short", 0, "shortstr", "", "shortstr", "q", "octet", 0)
			w.frame(2, 1, "\x00\x32\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")
		})},
		{name: "unknown method", check: unknownMethod},
		{name: "arguments too short", check: malformed(501, "FRAME_ERROR - cannot decode <<0,0>>", func(w *rawConnection) { w.send(1, 50, 10, "short", 0) })},
		{name: "channel method on channel 0", check: malformed(504, "CHANNEL_ERROR - unexpected method in connection state running", func(w *rawConnection) { w.send(0, 50, 10, "short", 0, "shortstr", "", "octet", 0, "table", "") })},
		{name: "a body in many frames", check: bodyInManyFrames},
		{name: "frames of two channels between each other", check: interleavedChannels},
		{name: "a frame in pieces", check: frameInPieces},
	}
}

func unknownMethod(p *probe) {
	w := p.openRaw()
	w.openChannel(1)
	w.send(1, 60, 999)
	w.expectEnd() // RabbitMQ sends no error, package broker does
	p.queue(nil)
}

func bodyInManyFrames(p *probe) {
	q := p.queue(nil)
	w := p.openRaw()
	w.openChannel(1)
	w.send(1, 60, 40, "short", 0, "shortstr", "", "shortstr", q, "octet", 0)
	w.header(1, 6, "\x00\x00")
	for _, part := range []string{"a", "", "bc", "def"} {
		w.frame(3, 1, part)
	}
	p.wantEqual("body", string(p.get(q).Body), "abcdef")
}

func interleavedChannels(p *probe) {
	q := p.queue(nil)
	w := p.openRaw()
	w.openChannel(1)
	w.openChannel(2)
	w.send(1, 60, 40, "short", 0, "shortstr", "", "shortstr", q, "octet", 0)
	w.send(2, 60, 40, "short", 0, "shortstr", "", "shortstr", q, "octet", 0)
	w.header(1, 2, "\x00\x00")
	w.header(2, 2, "\x00\x00")
	w.frame(3, 2, "b")
	w.frame(3, 1, "aa")
	w.frame(3, 2, "b")
	p.wantEqual("bodies", p.sortedBodies(q, 2), []string{"aa", "bb"})
}

func frameInPieces(p *probe) {
	w := p.openRaw()
	b := frameBytes(1, 1, arguments(20, 10, "octet", 0))
	for i := range b {
		w.write(b[i : i+1])
	}
	w.expect(1, 20, 11)
}
