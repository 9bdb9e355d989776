package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// serving is a Server that runs.
type serving struct {
	*Server
	address string
}

// startServing runs a server with a store of its own until the test ends.
func startServing(t *testing.T, b rabbittest.Broker, environ ...string) serving {
	t.Helper()
	settings, err := config.Load(config.Sources{Environ: append([]string{
		"WATERSHIP_AMQP_URL=" + b.URL, "WATERSHIP_TOPOLOGY_PREFIX=" + rabbittest.Name(t),
		"WATERSHIP_STORE_URL=sqlite:" + filepath.Join(t.TempDir(), "store.db"), "WATERSHIP_HTTP_LISTEN=127.0.0.1:0",
		"WATERSHIP_INDEX_BATCH_WAIT=10ms", "WATERSHIP_DATA=" + t.TempDir(),
	}, environ...)})
	if err != nil {
		t.Fatal(err)
	}
	a, err := system.Start(t.Context(), system.Config{Settings: settings, Name: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := New(t.Context(), a, Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- s.Run(ctx, Faces{Run: func(ctx context.Context) error {
			address <- s.Address().String()
			<-ctx.Done()
			return nil
		}})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case found := <-address:
		return serving{s, found}
	case err := <-ended:
		ended <- err
		t.Fatal(err)
		return serving{}
	}
}

// request sends a request, again while the server refuses the connection or is not ready. A
// test begins with /readyz: a server that stops before it has started returns an error.
func (s serving) request(t *testing.T, client *http.Client, method, url, token string) (status int, body string) {
	t.Helper()
	rabbittest.Eventually(t, method+" "+url, func() bool {
		r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(r)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if response.Header.Get("X-Content-Type-Options") != "nosniff" || response.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %v", url, response.Header)
		}
		status, body = response.StatusCode, string(text)
		return err == nil && status != http.StatusServiceUnavailable
	})
	return status, body
}

// Actions and refusals are events in the store, which a query finds by who, from where,
// what and how it ended.
func TestActionsAreEvents(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		b = b.VHost(t) // whose queues end with the test: doctor lists those of others
		path := filepath.Join(t.TempDir(), "tokens.json")
		tokens := access.OpenTokenFile(path)
		operator, err := tokens.Create(access.Token{Name: "ada", Role: access.Operator})
		if err != nil {
			t.Fatal(err)
		}
		viewer, err := tokens.Create(access.Token{Name: "bob", Role: access.Viewer})
		if err != nil {
			t.Fatal(err)
		}
		keys := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(keys, []byte(strings.Repeat("k", 32)), 0o600); err != nil {
			t.Fatal(err)
		}
		s := startServing(t, b, "WATERSHIP_HTTP_AUTH_TOKENS_FILE="+path, "WATERSHIP_AMQP_STATE_KEY_FILE="+keys)
		url := "http://" + s.address
		for _, test := range []struct {
			method, path, token string
			want                int
		}{
			{"GET", "/readyz", "", 200},
			{"GET", "/metrics", "", 200},
			{"DELETE", "/nothing", operator, 404},
			{"DELETE", "/nothing", viewer, 403},
			{"GET", "/nothing", "", 401},
			{"POST", "/healthz", "", 401},
		} {
			if status, body := s.request(t, http.DefaultClient, test.method, url+test.path, test.token); status != test.want {
				t.Errorf("%s %s: %d, want %d: %s", test.method, test.path, status, test.want, body)
			}
		}
		events, err := s.Store(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		count := func(query string) int64 {
			n, err := events.Count(t.Context(), eventstore.Selection{Query: mustParse(t, s.System, query)})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		rabbittest.Eventually(t, "the events are stored", func() bool { return count("event.action: audited") >= 3 })
		for query, want := range map[string]int64{
			"event.action: audited": 3,
			"user.name: ada and event.outcome: failure and operation: DELETE and object: \"/nothing\"":          1,
			"user.name: bob and client.address: 127.0.0.1 and method: token and error.message: \"role viewer\"": 1,
			"event.action: audited and not user.name: *":                                                        1,
		} {
			if got := count(query); got != want {
				t.Errorf("%s: %d, want %d", query, got, want)
			}
		}
		limited, err := access.Identity{Role: access.Admin, Queues: []string{"*"}}.Restrict(mustParse(t, s.System, "event.action: audited"))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := events.Count(t.Context(), eventstore.Selection{Query: limited}); n != 0 || err != nil {
			t.Errorf("an identity with limits finds %d records, %v", n, err)
		}
	})
}

func mustParse(t *testing.T, a *system.System, query string) kql.Node {
	t.Helper()
	node, err := a.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// The server has a certificate of its own, and healthcheck does not mind its name.
func TestServesTLS(t *testing.T) {
	cert, key := writeCertificate(t)
	s := startServing(t, rabbittest.Embedded(t), "WATERSHIP_HTTP_TLS_CERT="+cert, "WATERSHIP_HTTP_TLS_KEY="+key)
	transport := trusting(t, cert)
	if status, body := s.request(t, &http.Client{Transport: transport}, "GET", "https://"+s.address+"/readyz", ""); status != 200 {
		t.Errorf("%d: %s", status, body)
	}
	listening := s.Settings().HTTP
	listening.Listen = s.address
	if err := CheckHealth(t.Context(), listening); err != nil {
		t.Error(err)
	}
}

// trusting returns a transport of clients that trust the server with a certificate.
func trusting(t *testing.T, cert string) *http.Transport {
	t.Helper()
	authorities := x509.NewCertPool()
	text, err := os.ReadFile(cert)
	if err != nil || !authorities.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities, ServerName: "watership.example"}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// Each response over TLS tells browsers to use TLS from then on, and none without TLS, where browsers ignore it.
func TestBrowsersStayWithTLS(t *testing.T) {
	cert, key := writeCertificate(t)
	files := []string{"WATERSHIP_HTTP_TLS_CERT=" + cert, "WATERSHIP_HTTP_TLS_KEY=" + key}
	for name, c := range map[string]struct {
		scheme   string
		settings []string
		want     string
	}{
		"with a certificate": {"https", files, "max-age=31536000"},
		"switched off":       {"https", append(files, "WATERSHIP_HTTP_TLS_HSTS=false"), ""},
		"without TLS":        {"http", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServing(t, rabbittest.Embedded(t), c.settings...)
			client := &http.Client{Transport: trusting(t, cert)}
			s.request(t, client, "GET", c.scheme+"://"+s.address+"/readyz", "")
			for _, path := range []string{"/healthz", "/metrics", "/", "/api/v1/version", "/nowhere"} {
				response, err := client.Get(c.scheme + "://" + s.address + path)
				if err != nil {
					t.Fatal(err)
				}
				response.Body.Close()
				if got := response.Header.Get("Strict-Transport-Security"); got != c.want {
					t.Errorf("%s: %q, want %q", path, got, c.want)
				}
			}
		})
	}
}

func writeCertificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"watership.example"}, IsCA: true, BasicConstraintsValid: true}
	public, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: public}, key: {Type: "PRIVATE KEY", Bytes: encoded}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// Headers that are too large, too slow or ambiguous end the connection or the request.
func TestMalformedRequests(t *testing.T) {
	s := startServing(t, rabbittest.Embedded(t))
	if status, _ := s.request(t, http.DefaultClient, "GET", "http://"+s.address+"/readyz", ""); status != 200 {
		t.Fatal(status)
	}
	for name, test := range map[string]struct{ request, want string }{
		"large headers":         {"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 2*listenHeaderBytes) + "\r\n\r\n", "HTTP/1.1 431"},
		"no Host":               {"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400"},
		"two Hosts":             {"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", "HTTP/1.1 400"},
		"HTTP/1.0 without Host": {"GET / HTTP/1.0\r\n\r\n", "HTTP/1.0 421"},
		"another Host":          {"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "HTTP/1.1 421"},
		"a URL of another host": {"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 421"},
		"a line break":          {"GET /\r\nX: / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 400"},
		"two lengths":           {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", "HTTP/1.1 400"},
		"two framings":          {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked, x\r\n\r\nxxx", "HTTP/1.1 501"},
		"slow headers":          {"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", ""},
		"no request":            {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", s.address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(6 * listenTimeout)); err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(conn, test.request)
			answer, err := io.ReadAll(conn)
			if err != nil && len(answer) == 0 && test.want == "" {
				t.Errorf("the connection is open: %v", err)
			}
			if !strings.HasPrefix(string(answer), test.want) {
				t.Errorf("got %.60q, %v, want %s", answer, err, test.want)
			}
		})
	}
}

// A message of an ordinary publisher with the headers of an audit event is a message.
func TestPublishersForgeNoAuditEvents(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		b = b.VHost(t) // whose queues end with the test: doctor lists those of others
		exchange := rabbittest.Name(t)
		if err := b.Channel(t).ExchangeDeclare(exchange, "topic", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.DeleteExchange(t, exchange) })
		s := startServing(t, b, "WATERSHIP_TAP_EXCHANGES=[{name: "+exchange+", type: topic}]")
		if status, _ := s.request(t, http.DefaultClient, "GET", "http://"+s.address+"/readyz", ""); status != 200 {
			t.Fatal(status)
		}
		forged := schemas.State{EventID: "audit:1", Time: time.Now(), Fingerprint: schemas.Envelope{}.Fingerprint()}
		forged.Audit.User, forged.Audit.Operation = "ada", "replay"
		p := wire.DefaultFrameMax.Wrap(schemas.Envelope{}, forged)
		ch := b.Channel(t)
		if err := ch.PublishWithContext(t.Context(), exchange, string(schemas.Audited), false, false, p); err != nil {
			t.Fatal(err)
		}
		events, err := s.Store(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rabbittest.Eventually(t, "the message is stored", func() bool {
			n, err := events.Count(t.Context(), eventstore.Selection{Query: mustParse(t, s.System, "event.action: published")})
			return err == nil && n == 1
		})
		for _, query := range []string{"event.action: audited", "user.name: *", "operation: *"} {
			if n, err := events.Count(t.Context(), eventstore.Selection{Query: mustParse(t, s.System, query)}); n != 0 || err != nil {
				t.Errorf("%s: %d, %v", query, n, err)
			}
		}
	})
}
