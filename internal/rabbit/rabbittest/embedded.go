package rabbittest

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/broker"
)

// Embedded is a broker inside the process, with its management API, that ends
// with the test.
func Embedded(t testing.TB) Broker {
	t.Helper()
	inside := broker.New(broker.Config{})
	t.Cleanup(func() {
		if err := inside.Close(); err != nil {
			t.Errorf("close the embedded broker: %v", err)
		}
	})
	address, err := inside.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen for the embedded broker: %v", err)
	}
	management := httptest.NewServer(inside.Management())
	t.Cleanup(management.Close)
	return Broker{
		Version: broker.Version, Own: true, URL: "amqp://guest:guest@" + address.String() + "/",
		ManagementURL: strings.Replace(management.URL, "http://", "http://guest:guest@", 1),
	}
}
