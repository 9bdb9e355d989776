package broker

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
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
		dead := deadLetter{&queue{name: "q", vhost: &vhost{}}, &message{keys: []string{"k"}, header: b, ttl: -1}, "rejected", 0}
		if _, err := parseProperties(dead.withDeathHeaders().header); err != nil {
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
	f.Add(appendMethod(appendMethod(publish, 1, txSelect, nil), 1, txRollback, nil))
	f.Add(appendMethod(open, 1, basicConsume, func(b []byte) []byte {
		return append(appendShortstr(appendShortstr(append(b, 0, 0), replyToName), "t"), bit(1, true), 0, 0, 0, 0)
	}))
	f.Add(appendMethod(open, 0, connectionUpdateSecret, func(b []byte) []byte {
		return appendShortstr(appendLongstr(b, "secret"), "reason")
	}))
	f.Fuzz(func(t *testing.T, b []byte) { survives(t, handshakeBytes(), b) })
}

// Whatever comes before a login harms nobody either.
func FuzzHandshake(f *testing.F) {
	whole := handshakeBytes()
	f.Add(whole)
	f.Add([]byte("AMQP\x00\x00\x08\x00"))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	for _, mechanism := range []string{"AMQPLAIN", "PLAIN", "EXTERNAL"} {
		f.Add(appendMethod([]byte(protocolHeader+"\x08\x00\x00\x00\x00\x00\x00\xCE"), 0, connectionStartOK, func(b []byte) []byte {
			client := table(nil).withTable("capabilities", table(nil).withBool("authentication_failure_close", true))
			b = appendShortstr(appendLongstr(b, string(client)), mechanism)
			login := table(nil).withText("LOGIN", "guest").withText("PASSWORD", "guest")
			return appendShortstr(appendLongstr(b, string(login)), "en_US")
		}))
	}
	f.Fuzz(func(t *testing.T, b []byte) { survives(t, b) })
}

// survives fails unless a broker takes another client after it got these bytes, and
// ends with nothing of theirs.
func survives(t *testing.T, all ...[]byte) {
	t.Helper()
	b := New(Config{Limits: Limits{Memory: 1 << 20}})
	defer b.Close()
	stream, err := b.Dial("", "")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, stream)
	}()
	_ = stream.SetWriteDeadline(time.Now().Add(time.Second))
	for _, bytes := range all {
		_, _ = stream.Write(bytes)
	}
	stream.Close()
	<-done
	other, err := b.Dial("", "")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	go func() { _, _ = other.Write([]byte(protocolHeader)) }()
	if _, err := io.ReadFull(other, make([]byte, frameHeadSize)); err != nil {
		t.Errorf("another client: %v", err)
	}
	other.Close()
	alone(t, b)
	if used := b.memory.used.Load(); used < 0 || b.memory.unfinished.Load() != 0 {
		t.Errorf("%d bytes are kept, %d of unfinished messages", used, b.memory.unfinished.Load())
	}
	for _, v := range b.vhosts {
		if v.topologyBytes < 0 {
			t.Errorf("the topology has %d bytes", v.topologyBytes)
		}
	}
}

// A topic exchange agrees with a plain reading of the rules, word by word.
func FuzzTopic(f *testing.F) {
	f.Add("a.*.#", "a.b.c")
	f.Add("#.#.*.#", "a")
	f.Add("", "")
	f.Add(".#.", "..")
	f.Add("*.#", "#.*")
	f.Fuzz(func(t *testing.T, pattern, key string) {
		if len(pattern) > 20 || len(key) > 20 {
			return // the plain reading takes too long
		}
		var matcher topicMatcher
		other, bound := &binding{key: "#.b.#"}, &binding{key: pattern}
		matcher.add(other)
		matcher.add(bound)
		got := 0
		count := func(b *binding) {
			if b == bound {
				got++
			}
		}
		matcher.match(key, nil, count)
		want := 0
		if matchesPlainly(topicWords(pattern), topicWords(key)) {
			want = 1
		}
		if got != want {
			t.Errorf("%q lets %q through %d times, want %d", pattern, key, got, want)
		}
		matcher.remove(bound)
		matcher.match(key, nil, count)
		matcher.remove(other)
		if got != want || len(matcher.root.next)+len(matcher.root.here) > 0 {
			t.Error("something is left of a binding that was removed")
		}
	})
}

func matchesPlainly(pattern, words []string) bool {
	switch {
	case len(pattern) == 0:
		return len(words) == 0
	case pattern[0] == "#":
		return matchesPlainly(pattern[1:], words) || len(words) > 0 && matchesPlainly(pattern, words[1:])
	case len(words) == 0:
		return false
	}
	return (pattern[0] == "*" || pattern[0] == words[0]) && matchesPlainly(pattern[1:], words[1:])
}

// Whatever a client of the management API sends, its answer is JSON, and no message
// or argument that it leaves cannot be read.
func FuzzManagement(f *testing.F) {
	f.Add("PUT", "/api/queues/%2F/q", `{"durable":"true","arguments":{"x-max-length":3,"list":[1,2.5,{"a":null}]}}`)
	f.Add("PUT", "/api/exchanges/%2F/x", `{"type":"headers","internal":false}`)
	f.Add("POST", "/api/bindings/%2F/e/amq.topic/q/q", `{"routing_key":"a.#"}`)
	f.Add("POST", "/api/exchanges/%2F/amq.default/publish", `{"properties":{"headers":{"CC":["q"]},"priority":3,"expiration":"1000"},"routing_key":"q","payload":"a","payload_encoding":"string"}`)
	f.Add("POST", "/api/queues/%2F/q/get", `{"count":"2","ackmode":"reject_requeue_false","encoding":"auto","truncate":1}`)
	f.Add("GET", "/api/queues/%2F?columns=a.b,name&sort=name&page=1&name=q&use_regex=true", "")
	f.Add("DELETE", "/api/bindings/%2F/e/amq.topic/q/q/a.%2523", "")
	f.Fuzz(func(t *testing.T, method, path, body string) {
		at, err := url.Parse(path)
		if err != nil {
			return
		}
		b := New(Config{})
		defer b.Close()
		handler := b.Management()
		for _, r := range []*http.Request{
			{Method: http.MethodPut, URL: &url.URL{Path: "/api/queues///q", RawPath: "/api/queues/%2F/q"}, Body: io.NopCloser(strings.NewReader("{}"))},
			{Method: method, URL: at, Body: io.NopCloser(strings.NewReader(body))},
			{Method: http.MethodGet, URL: &url.URL{Path: "/api/bindings"}, Body: http.NoBody},
			{Method: http.MethodGet, URL: &url.URL{Path: "/api/queues"}, Body: http.NoBody},
		} {
			r.Header, r.RemoteAddr = http.Header{}, "127.0.0.1:1"
			r.SetBasicAuth("guest", "guest")
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, r)
			if answer.Body.Len() > 0 && !json.Valid(answer.Body.Bytes()) {
				t.Errorf("%s %s: %q", r.Method, r.URL, answer.Body)
			}
		}
		for _, q := range b.vhosts["/"].queues {
			for e := q.ready.pop(); e != nil; e = q.ready.pop() {
				if _, err := parseProperties(e.message.header); err != nil {
					t.Errorf("a message has %q: %v", e.message.header, err)
				}
			}
			if err := q.args.validate(); err != nil {
				t.Errorf("a queue has arguments %q: %v", q.args, err)
			}
		}
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
