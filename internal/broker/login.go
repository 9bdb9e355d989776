package broker

import (
	"crypto/subtle"
	"net"
	"slices"
)

// Why a login is refused, in RabbitMQ's words.
const (
	badLogin      = "Login failed"
	loopbackLogin = "User can only log in via localhost"
)

// refuses says why it refuses a login that comes from an address; "" where it does
// not.
func (c Config) refuses(user string, password []byte, from net.Addr) (why string) {
	want, known := c.Users[user]
	switch {
	case subtle.ConstantTimeCompare([]byte(want), password) != 1 || !known:
		return badLogin
	case slices.Contains(c.LoopbackUsers, user) && !isLocal(from):
		return loopbackLogin
	}
	return ""
}

// isLocal reports whether an address is of this machine. A pipe has none.
func isLocal(address net.Addr) bool {
	tcp, overNetwork := address.(*net.TCPAddr)
	return !overNetwork || tcp.IP.IsLoopback()
}
