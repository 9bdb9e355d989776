package broker_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/broker/brokertest"
)

func TestSuiteInProcess(t *testing.T) {
	t.Parallel()
	b := broker.New(broker.Config{})
	t.Cleanup(func() { b.Close() })
	brokertest.Run(t, brokertest.Target{
		URL:  b.URL(),
		Dial: b.Dial,
	})
}

func TestSuiteOfRabbitMQ40(t *testing.T) {
	t.Parallel()
	b := broker.New(broker.Config{Release: broker.RabbitMQ40})
	t.Cleanup(func() { b.Close() })
	brokertest.Run(t, brokertest.Target{URL: b.URL(), Dial: b.Dial})
}

func TestSuiteOfRabbitMQ310(t *testing.T) {
	t.Parallel()
	b := broker.New(broker.Config{Release: broker.RabbitMQ310})
	t.Cleanup(func() { b.Close() })
	brokertest.Run(t, brokertest.Target{URL: b.URL(), Dial: b.Dial})
}

func TestSuiteOverTCP(t *testing.T) {
	t.Parallel()
	brokertest.Run(t, brokertest.Target{URL: broker.Start(t, broker.Config{}).URL()})
}

// The suite needs no login, virtual host or transport of its own.
func TestSuiteOverTLS(t *testing.T) {
	t.Parallel()
	b := broker.New(broker.Config{Users: map[string]string{"anna": "secret"}, VHosts: []string{"shop"}})
	t.Cleanup(func() { b.Close() })
	https := httptest.NewTLSServer(nil) // for its certificate
	https.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: https.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = b.Serve(listener) }()
	brokertest.Run(t, brokertest.Target{
		URL: fmt.Sprintf("amqps://anna:secret@%s/shop", listener.Addr()),
		TLS: https.Client().Transport.(*http.Transport).TLSClientConfig,
	})
}

func TestSuiteOnRabbitMQ(t *testing.T) {
	t.Parallel()
	for _, url := range servers(t, "WATERSHIP_TEST_AMQP_URLS") {
		t.Run(hostOf(url), func(t *testing.T) {
			t.Parallel()
			brokertest.Run(t, brokertest.Target{URL: url})
		})
	}
}

func TestManagementSuite(t *testing.T) {
	t.Parallel()
	brokertest.RunManagement(t, broker.Start(t, broker.Config{}).StartManagement(t))
}

func TestManagementSuiteOnRabbitMQ(t *testing.T) {
	t.Parallel()
	for _, url := range servers(t, "WATERSHIP_TEST_MANAGEMENT_URLS") {
		t.Run(hostOf(url), func(t *testing.T) {
			t.Parallel()
			brokertest.RunManagement(t, url)
		})
	}
}

// servers are the URLs that an environment variable has.
func servers(t *testing.T, variable string) []string {
	t.Helper()
	urls := strings.Fields(os.Getenv(variable))
	if len(urls) == 0 {
		unavailable(t, "no RabbitMQ: "+variable+` is not set (scripts/services up; eval "$(scripts/services env)")`)
	}
	return urls
}

func hostOf(url string) string { return strings.Trim(url[strings.LastIndex(url, "@")+1:], "/") }
