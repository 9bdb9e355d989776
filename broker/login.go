package broker

import (
	"bytes"
	"crypto/subtle"
	"net"
	"slices"
	"time"
)

// authenticate checks the response of a SASL mechanism.
func (c *connection) authenticate(mechanism string, response []byte) error {
	var user string
	var password []byte
	switch mechanism {
	case "PLAIN":
		user, password = plain(response)
	case "AMQPLAIN":
		user, password = amqplain(response)
	default:
		return newException(commandInvalid, "unknown authentication mechanism '%s'", mechanism)
	}
	why := c.broker.cfg.checkLogin(user, password, c.stream.RemoteAddr())
	if why == "" {
		c.user, c.mechanism, c.openedAt = user, mechanism, time.Now()
		c.log = c.log.With("user", user)
		return nil
	}
	c.log.Warn("login refused", "user", user, "reason", why)
	if !c.hasCapability("authentication_failure_close") {
		return errConnectionEnded
	}
	return newException(accessRefused, "Login was refused using authentication mechanism %s. "+
		"For details see the broker logfile.", mechanism)
}

// plain decodes RFC 4616: authorization identity, NUL, login, NUL, password.
func plain(response []byte) (user string, password []byte) {
	parts := bytes.Split(response, []byte{0})
	if len(parts) != 3 {
		return "", nil
	}
	return string(parts[1]), parts[2]
}

// amqplain decodes the table of AMQPLAIN.
func amqplain(response []byte) (user string, password []byte) {
	login := table(response)
	if login.validate() != nil {
		return "", nil
	}
	name, _ := login.lookup("LOGIN")
	secret, _ := login.lookup("PASSWORD")
	if name.kind != 'S' || secret.kind != 'S' {
		return "", nil
	}
	return string(name.raw), secret.raw
}

// Reasons to refuse a login, as in RabbitMQ.
const (
	badLogin      = "Login failed"
	loopbackLogin = "User can only log in via localhost"
)

// checkLogin returns the reason to refuse a login from an address; "" for none.
func (c Config) checkLogin(user string, password []byte, from net.Addr) (why string) {
	want, known := c.Users[user]
	switch {
	case subtle.ConstantTimeCompare([]byte(want), password) != 1 || !known:
		return badLogin
	case slices.Contains(c.LoopbackUsers, user) && !isLocal(from):
		return loopbackLogin
	}
	return ""
}

// isLocal reports whether an address is of this machine. A pipe always is.
func isLocal(address net.Addr) bool {
	tcp, overNetwork := address.(*net.TCPAddr)
	return !overNetwork || tcp.IP.IsLoopback()
}
