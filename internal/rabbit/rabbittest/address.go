package rabbittest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreeAddress returns an address on which nothing listens. Its port is random, below those
// that the kernel gives to connections and to listeners without a port, so that no other test
// gets it before it is used.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))
		if listener, err := net.Listen("tcp", address); err == nil {
			_ = listener.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}
