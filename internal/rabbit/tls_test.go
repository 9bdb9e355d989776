package rabbit

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// TestTLS publishes with the client certificate that the broker requires, named in
// the URL or in the configuration.
func TestTLS(t *testing.T) {
	s := rabbittest.TLS(t)
	rabbittest.NoLeaks(t)
	queue := s.Queue(t, nil)
	pair, err := tls.LoadX509KeyPair(s.ClientCert, s.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(read(t, s.CA))
	for name, adjust := range map[string]func(*Config){
		"files":         func(c *Config) { c.URL = s.URL(s.CA, s.ClientCert, s.ClientKey) },
		"configuration": func(c *Config) { c.TLS = &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}} },
	} {
		p := publisher(t, open(t, s.URL("", "", ""), adjust), 10)
		if err := p.Publish(testContext(t), to(queue, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := s.Take(t, queue, 1)[0]; string(d.Body) != name {
			t.Errorf("got %s, want %s", d.Body, name)
		}
	}
}

// TestTLSErrors checks that certificate errors are logged once and name the cause.
func TestTLSErrors(t *testing.T) {
	s := rabbittest.TLS(t)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ url, want string }{
		"another CA":            {s.URL(anotherCA(t), s.ClientCert, s.ClientKey), "certificate signed by unknown authority"},
		"no CA":                 {s.URL("", s.ClientCert, s.ClientKey), "certificate signed by unknown authority"},
		"no client certificate": {s.URL(s.CA, "", ""), "the broker wants a client certificate"},
		"an empty CA file":      {s.URL(empty, s.ClientCert, s.ClientKey), "empty.pem: expected certificates in PEM"},
		"no key":                {s.URL(s.CA, s.ClientCert, ""), "certfile and keyfile: expected both or neither"},
		"another key":           {s.URL(s.CA, s.ClientCert, s.CA), "with keyfile"},
	} {
		t.Run(name, func(t *testing.T) {
			rabbittest.NoLeaks(t)
			log := &rabbittest.Log{}
			c := open(t, test.url, func(cfg *Config) { cfg.Logger = log.Logger() })
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			err := publisher(t, c, 1).Publish(ctx, to("nowhere", ""))
			if err == nil {
				t.Fatal("published")
			}
			rabbittest.Eventually(t, "the reason", func() bool { return strings.Contains(c.Err().Error(), test.want) })
			if text := c.Err().Error(); strings.Contains(text, "guest:guest") || strings.Contains(text, "\n") {
				t.Error(text)
			}
			rabbittest.Eventually(t, "a line in the log", func() bool { return log.Count("cannot connect to the broker") > 0 })
			if n := log.Count("cannot connect to the broker"); n != 1 {
				t.Errorf("said %d times:\n%s", n, log)
			}
		})
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// anotherCA returns the file of a certificate authority that signed no certificate.
func anotherCA(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
