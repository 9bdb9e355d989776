package broker

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"time"
)

func everyField() table {
	return table(nil).
		withText("text", "value").withLong("long", -1).withTimestamp("time", 1).withBool("bool", true).
		withTable("table", table(nil).withText("a", "b")).
		withArray("array", tableItem(textItem(nil, "a"), table(nil).withLong("n", 3))).
		withField("void", field{'V', nil}).withField("double", field{'d', make([]byte, 8)}).
		withField("decimal", field{'D', make([]byte, 5)}).withField("bytes", field{'x', []byte{0, 1}})
}

// A table that is taken is given out again byte by byte, and can be shown.
func FuzzTable(f *testing.F) {
	f.Add([]byte(everyField()))
	f.Add([]byte("\x01aF\x00\x00\x00\x06\x01bF\x00\x00\x00\x00"))
	f.Add([]byte("\x01aZ"))
	f.Add([]byte{255})
	f.Fuzz(func(t *testing.T, b []byte) {
		tab := table(b)
		if tab.validate() != nil {
			return
		}
		var again table
		for name, value := range tab.fields() {
			again = again.withField(name, value)
			_, _ = value.String(), value.equal(value)
		}
		if !bytes.Equal(again, tab) {
			t.Errorf("%q became %q", tab, again)
		}
		if _, err := json.Marshal(tab.json()); err != nil {
			t.Errorf("JSON of %q: %v", tab, err)
		}
		if newHeaderPattern(tab); tab.canonical() != again.canonical() {
			t.Error("not canonical")
		}
	})
}

func FuzzProperties(f *testing.F) {
	var p properties
	p.setHeaders(everyField())
	p.values[propExpiration] = appendShortstr(nil, "60000")
	p.values[propTimestamp] = make([]byte, 8)
	p.values[propPriority] = []byte{3}
	f.Add(p.encode())
	f.Add([]byte{0, 0})
	f.Add([]byte{255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parseProperties(b)
		if err != nil {
			return
		}
		if !bytes.Equal(p.encode(), b) {
			t.Errorf("%q became %q", b, p.encode())
		}
		_, _ = p.expiration()
		_, _, _ = p.headerRoutes()
		dead := death{&queue{name: "q"}, &message{keys: []string{"k"}, header: b, ttl: -1}, "rejected"}
		if _, err := parseProperties(dead.letter().header); err != nil {
			t.Errorf("after a death: %v", err)
		}
	})
}

// Whatever a client sends after its handshake, the broker lives, ends the
// connection when the client goes, and forgets nothing of others.
func FuzzFrames(f *testing.F) {
	open := appendMethod(nil, 1, channelOpen, func(b []byte) []byte { return append(b, 0) })
	declare := appendMethod(open, 1, queueDeclare, func(b []byte) []byte {
		b = append(appendShortstr(append(b, 0, 0), "q"), 0)
		return appendLongstr(b, string(everyField()))
	})
	publish := appendMethod(declare, 1, basicPublish, func(b []byte) []byte {
		return append(appendShortstr(appendShortstr(append(b, 0, 0), ""), "q"), 0)
	})
	f.Add(appendContent(publish, 1, []byte{0, 0}, []byte("body"), frameMinSize))
	f.Add(appendMethod(publish, 1, basicConsume, func(b []byte) []byte {
		return append(appendShortstr(appendShortstr(append(b, 0, 0), "q"), ""), 0, 0, 0, 0, 0)
	}))
	f.Add(appendMethod(declare, 1, basicAck, func(b []byte) []byte { return append(b, 0, 0, 0, 0, 0, 0, 0, 9, 1) }))
	f.Add([]byte("\x01\x00\x01\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		broker := New(Config{Limits: Limits{Memory: 1 << 20}})
		defer broker.Close()
		stream, err := broker.Dial()
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(io.Discard, stream)
		}()
		_ = stream.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = stream.Write(handshakeBytes())
		_, _ = stream.Write(b)
		stream.Close()
		<-done
	})
}

// handshakeBytes are what a client sends, up to connection.open.
func handshakeBytes() []byte {
	b := appendMethod([]byte(protocolHeader), 0, connectionStartOK, func(b []byte) []byte {
		b = appendShortstr(appendLongstr(b, ""), "PLAIN")
		return appendShortstr(appendLongstr(b, "\x00guest\x00guest"), "en_US")
	})
	b = appendMethod(b, 0, connectionTuneOK, func(b []byte) []byte { return append(b, 0, 10, 0, 2, 0, 0, 0, 0) })
	return appendMethod(b, 0, connectionOpen, func(b []byte) []byte { return append(appendShortstr(b, "/"), 0, 0) })
}
