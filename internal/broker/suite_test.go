package broker_test

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/broker"
	"github.com/watershipmq/watership/internal/broker/brokertest"
)

func TestSuiteInProcess(t *testing.T) {
	t.Parallel()
	b := broker.New(broker.Config{})
	t.Cleanup(func() { b.Close() })
	brokertest.Run(t, brokertest.Target{
		URL:  "amqp://guest:guest@embedded/",
		Dial: func(string, string) (net.Conn, error) { return b.Dial() },
	})
}

func TestSuiteOverTCP(t *testing.T) {
	t.Parallel()
	b := broker.New(broker.Config{})
	t.Cleanup(func() { b.Close() })
	addr, err := b.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	brokertest.Run(t, brokertest.Target{URL: "amqp://guest:guest@" + addr.String() + "/"})
}

func TestSuiteOnRabbitMQ(t *testing.T) {
	t.Parallel()
	urls := strings.Fields(os.Getenv("WATERSHIP_TEST_AMQP_URLS"))
	if len(urls) == 0 {
		const reason = `no RabbitMQ: WATERSHIP_TEST_AMQP_URLS is not set (scripts/services up; eval "$(scripts/services env)")`
		if os.Getenv("WATERSHIP_TEST_REQUIRED") != "" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	for _, url := range urls {
		t.Run(url[strings.LastIndex(url, "@")+1:], func(t *testing.T) {
			t.Parallel()
			brokertest.Run(t, brokertest.Target{URL: url})
		})
	}
}
