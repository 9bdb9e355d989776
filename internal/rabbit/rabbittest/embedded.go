package rabbittest

import (
	"testing"

	"github.com/watershipmq/watership/broker"
)

// Embedded is a broker inside the process, with its management API, that ends
// with the test.
func Embedded(t testing.TB) Broker {
	t.Helper()
	inside := broker.Start(t, broker.Config{})
	return Broker{
		Version: broker.Version, Own: true, URL: inside.URL() + "/",
		ManagementURL: inside.StartManagement(t),
	}
}
