package rabbittest

import (
	"net"
	"syscall"
	"testing"
)

// FailListener makes the listener of this process at an address fail: Accept
// returns an error from then on.
func FailListener(t testing.TB, address net.Addr) {
	t.Helper()
	port := address.(*net.TCPAddr).Port
	for fd := range 1024 {
		name, err := syscall.Getsockname(fd)
		local, isIPv4 := name.(*syscall.SockaddrInet4)
		if err != nil || !isIPv4 || local.Port != port {
			continue
		}
		if on, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN); err != nil || on == 0 {
			continue
		}
		if err := syscall.Shutdown(fd, syscall.SHUT_RDWR); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("nothing listens at %s", address)
}
