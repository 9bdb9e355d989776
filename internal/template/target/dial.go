package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"
)

// Dial connects to an address of a host that is allowed. Its error is a *Problem only
// if the host has no such address; if it has one, the host may be there again later.
func Dial(ctx context.Context, network, hostPort string, networks []netip.Prefix) (net.Conn, error) {
	var hasAllowed atomic.Bool
	dialer := net.Dialer{Timeout: 30 * time.Second, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		err := checkAddress(address, networks)
		if err == nil {
			hasAllowed.Store(true)
		}
		return err
	}}
	conn, err := dialer.DialContext(ctx, network, hostPort)
	var refused *Problem
	if errors.As(err, &refused) && hasAllowed.Load() {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("no address of the host that is allowed answers")}
	}
	return conn, err
}

func checkAddress(address string, networks []netip.Prefix) error {
	to, err := netip.ParseAddrPort(address)
	if err == nil && IsAllowed(to.Addr(), networks) {
		return nil
	}
	return &Problem{
		Kind: RefusedAddress,
		Text: fmt.Sprintf("the address %s, which is neither public nor in a private network that is allowed", to.Addr()),
	}
}
