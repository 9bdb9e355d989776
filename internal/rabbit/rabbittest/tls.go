package rabbittest

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Secure is a broker's TLS listener, which requires a client certificate.
type Secure struct {
	Broker                           // the same broker without TLS
	CA, ClientCert, ClientKey string // files
	bare                      string
}

// TLS returns the listener of WATERSHIP_TEST_AMQPS_URL. If that is not set it skips
// the test, or fails it if WATERSHIP_TEST_REQUIRED is set and scripts/services
// started the broker.
func TLS(t testing.TB) Secure {
	t.Helper()
	address, files := os.Getenv("WATERSHIP_TEST_AMQPS_URL"), os.Getenv("WATERSHIP_TEST_TLS")
	if address == "" {
		const reason = "no TLS listener: WATERSHIP_TEST_AMQPS_URL is not set (scripts/services stop rabbitmq4 && scripts/services up gives a running broker one)"
		if strings.Contains(os.Getenv("WATERSHIP_TEST_SERVICES_STARTED"), "rabbitmq4=") && os.Getenv("WATERSHIP_TEST_REQUIRED") != "" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	return Secure{
		Broker: serverWithTLS(t), bare: address,
		CA: filepath.Join(files, "ca.pem"), ClientCert: filepath.Join(files, "client.pem"), ClientKey: filepath.Join(files, "client.key"),
	}
}

// serverWithTLS returns the server to which scripts/services gives the listener, or the
// newest one.
func serverWithTLS(t testing.TB) Broker {
	t.Helper()
	for _, b := range servers(t) {
		if b.ServiceName() == "rabbitmq4" {
			b.Version = version(t, b.URL)
			return b
		}
	}
	return NewestServer(t)
}

// URL returns the listener's URL with the files in RabbitMQ's query parameters;
// files that are "" are left out.
func (s Secure) URL(ca, cert, key string) string {
	query := url.Values{}
	for name, file := range map[string]string{"cacertfile": ca, "certfile": cert, "keyfile": key} {
		if file != "" {
			query.Set(name, file)
		}
	}
	return s.bare + "?" + query.Encode()
}
