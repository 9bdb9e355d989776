// Package requestheader checks which headers of a message may become headers of an
// HTTP request under their own names.
package requestheader

import (
	"errors"
	"slices"
	"strings"
)

// Check refuses a name that would change the meaning of the request, or that a
// server may read as another name. The publisher of a message chooses the value.
func Check(name string) error {
	switch {
	case !IsToken(name):
		return errors.New("expected the name of a header, of letters, digits and dashes")
	case strings.Contains(name, "_"):
		return errors.New("expected a name without _, which many servers take for a dash")
	case isReserved(strings.ToLower(name)):
		return errors.New("expected a header that is not about the connection, the body or Watership itself")
	}
	return nil
}

// CheckSet refuses a name under which the configuration may not set a value. Unlike the
// others, Content-Type does not frame the request.
func CheckSet(name string) error {
	if strings.EqualFold(name, "content-type") {
		return nil
	}
	return Check(name)
}

// isReserved reports whether a header frames the request or is Watership's own.
func isReserved(name string) bool {
	for _, prefix := range []string{"content-", "proxy-", "watership-", "webhook-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{
		"accept-encoding", "connection", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "x-death",
	}, name)
}

// IsToken reports whether s is a token, as the name of a header must be (RFC 9110 §5.6.2).
func IsToken(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}) < 0
}
