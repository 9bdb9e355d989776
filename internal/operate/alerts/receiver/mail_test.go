package receiver_test

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"
)

// smtpServer is a mail server with the commands of RFC 5321, STARTTLS and AUTH PLAIN.
type smtpServer struct {
	listener net.Listener
	conf     *tls.Config
	ca       string // file
	implicit bool   // TLS from the beginning
	refuses  bool   // recipients

	mu       sync.Mutex // guards the fields below
	commands []string
	mails    []string
}

func newSMTPServer(t *testing.T, implicit bool) *smtpServer {
	t.Helper()
	certified := httptest.NewTLSServer(nil) // for its certificate
	defer certified.Close()
	s := &smtpServer{conf: &tls.Config{Certificates: certified.TLS.Certificates}, implicit: implicit}
	s.ca = write(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw})))
	var err error
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	var sessions sync.WaitGroup
	sessions.Go(func() {
		for {
			conn, err := s.listener.Accept()
			if err != nil {
				return
			}
			sessions.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() { s.listener.Close(); sessions.Wait() })
	return s
}

func (s *smtpServer) serve(conn net.Conn) {
	defer func() { conn.Close() }()
	if s.implicit {
		conn = tls.Server(conn, s.conf)
	}
	in, secure := bufio.NewReader(conn), s.implicit
	reply := func(text string) { fmt.Fprint(conn, text+"\r\n") }
	reply("220 test ESMTP")
	for {
		line, err := textproto.NewReader(in).ReadLine()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.commands = append(s.commands, line)
		s.mu.Unlock()
		verb, _, _ := strings.Cut(strings.ToUpper(line), " ")
		switch verb {
		case "EHLO":
			if secure {
				reply("250-test\r\n250 AUTH PLAIN")
			} else {
				reply("250-test\r\n250 STARTTLS")
			}
		case "STARTTLS":
			reply("220 go ahead")
			conn, secure = tls.Server(conn, s.conf), true
			in = bufio.NewReader(conn)
		case "AUTH":
			if line != "AUTH PLAIN "+base64.StdEncoding.EncodeToString([]byte("\x00shop\x00pw")) {
				reply("535 authentication failed")
				continue
			}
			reply("235 welcome")
		case "RCPT":
			if s.refuses {
				reply("550 no such mailbox")
				continue
			}
			reply("250 ok")
		case "DATA":
			reply("354 go on")
			text, err := textproto.NewReader(in).ReadDotBytes()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.mails = append(s.mails, string(text))
			s.mu.Unlock()
			reply("250 queued")
		case "QUIT":
			reply("221 bye")
			return
		default:
			reply("250 ok")
		}
	}
}

func (s *smtpServer) address() string { return s.listener.Addr().String() }

// A mail goes by STARTTLS or TLS, with a login, and its id is that of the notice.
func TestMail(t *testing.T) {
	for kind, implicit := range map[string]bool{"starttls": false, "tls": true} {
		s := newSMTPServer(t, implicit)
		r := loaded(t, "mail: {server: '"+s.address()+"', tls: "+kind+", ca: "+s.ca+", username: shop, password_file: "+write(t, "pw\n")+", from: 'Watership <ops@shop.example>', to: [a@shop.example, b@shop.example]}")
		answer, err := r.Send(t.Context(), example())
		if err != nil || !strings.Contains(answer, "took the mail") {
			t.Fatalf("%s: %q, %v: %q", kind, answer, err, s.commands)
		}
		if implicit == slices.Contains(s.commands, "STARTTLS") {
			t.Errorf("%s: %q", kind, s.commands)
		}
		if !slices.ContainsFunc(s.commands, func(c string) bool { return strings.HasPrefix(c, "RCPT TO:<b@shop.example>") }) {
			t.Errorf("%s: %q", kind, s.commands)
		}
		checkMail(t, s.mails)
	}
}

func checkMail(t *testing.T, mails []string) {
	t.Helper()
	if len(mails) != 1 {
		t.Fatalf("%d mails", len(mails))
	}
	m, err := mail.ReadMessage(strings.NewReader(mails[0]))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if want := "[Watership shop] 1 firing, 1 resolved: new failures in queue orders: no <stock> & more and others"; subject != want || err != nil {
		t.Errorf("subject %q, %v", subject, err)
	}
	if id := m.Header.Get("Message-Id"); id != "<0123abcd@shop.example>" {
		t.Errorf("id %s", id)
	}
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	for _, part := range []string{"FIRING: new failures in queue orders", "https://watership.example/failures?q=1", "RESOLVED: the route of queue mails", "2 other alerts still firing", "All alerts: https://watership.example/alerts"} {
		if !strings.Contains(string(text), part) || err != nil {
			t.Errorf("%q is not in %q, %v", part, text, err)
		}
	}
}

// mailText returns the subject and the text of a mail.
func mailText(t *testing.T, sent string) string {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil {
		t.Fatal(err)
	}
	return subject + "\n" + strings.ReplaceAll(string(text), "\r\n", "\n")
}

// A server without STARTTLS gets neither login nor mail, and its refusals are errors.
func TestMailIsRefused(t *testing.T) {
	s := newSMTPServer(t, false)
	to := func(more string) string {
		return "mail: {server: '" + s.address() + "', " + more + ", from: ops@shop.example, to: [a@shop.example]}"
	}
	login := "username: shop, password_file: " + write(t, "wrong\n")
	if _, err := loaded(t, to("ca: "+s.ca+", "+login)).Send(t.Context(), example()); err == nil || !strings.Contains(err.Error(), "535") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("a wrong password: %v", err)
	}
	if _, err := loaded(t, to("tls: starttls")).Send(t.Context(), example()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown certificate: %v", err)
	}
	s.refuses = true
	if _, err := loaded(t, to("tls: none")).Send(t.Context(), example()); err == nil || !strings.Contains(err.Error(), "no such mailbox") {
		t.Errorf("a refused recipient: %v", err)
	}
	if len(s.mails) != 0 {
		t.Errorf("mails: %q", s.mails)
	}
}
