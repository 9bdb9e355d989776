// Package freeport chooses a port for a server that has a usual one.
package freeport

import (
	"net"
	"strconv"
)

const near = 9 // ports after the usual one

// Listen listens on an address, or if that fails on the first port after it that is free. So a server whose usual
// port is taken has the same one at its next start. If the nine ports after it are taken, too, any is chosen.
func Listen[T any](address string, listen func(address string) (T, error)) (T, error) {
	listener, err := listen(address)
	host, text, _ := net.SplitHostPort(address)
	port, _ := strconv.Atoi(text)
	for next := port + 1; err != nil && next <= port+near; next++ {
		listener, err = listen(net.JoinHostPort(host, strconv.Itoa(next)))
	}
	if err != nil {
		listener, err = listen(net.JoinHostPort(host, "0"))
	}
	return listener, err
}
