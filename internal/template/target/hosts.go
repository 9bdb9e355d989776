package target

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

// Host is a host, or a pattern of hosts, to which messages may have requests sent.
type Host struct {
	scheme string // http or https; "": as the template has it, or https for a whole URL
	suffix string // of the names of a pattern; "*" for every name, "" if it is no pattern
	host
}

// host is the name of a host and a port.
type host struct {
	name string // in lower case, or an IP address
	ip   bool
	port string // "": the default port of the scheme
}

func (h host) String() string {
	name := h.name
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	if h.port == "" {
		return name
	}
	return name + ":" + h.port
}

// ParseHost parses hooks.example.com, *.example.com for the names that end so, or * for
// every name; with :PORT after it and http:// or https:// before it, if need be.
func ParseHost(text string) (Host, error) {
	expected := errors.New("expected a host such as hooks.example.com, *.example.com, hooks.example.com:8443 or http://hooks.example.com, with other letters as xn--, or * for every name")
	var h Host
	rest := text
	if scheme, after, found := strings.Cut(text, "://"); found {
		if h.scheme, rest = scheme, after; scheme != "http" && scheme != "https" {
			return Host{}, expected
		}
	}
	switch pattern, found := strings.CutPrefix(rest, "*"); {
	case found && (pattern == "" || pattern[0] == ':'):
		h.suffix, rest = "*", "every-name"+pattern
	case found && pattern[0] == '.':
		h.suffix, rest = ".", pattern[1:]
	}
	var err error
	if h.host, err = parseHost(rest); err != nil || h.suffix != "" && h.ip {
		return Host{}, expected
	}
	if h.suffix == "." {
		h.suffix += h.name
	}
	return h, nil
}

// allows reports whether a request may be sent to a host. A pattern without a scheme
// allows only the scheme byDefault.
func (h Host) allows(to host, scheme, byDefault string) bool {
	if h.scheme != "" {
		byDefault = h.scheme
	}
	if scheme != byDefault || portOf(h.port, scheme) != portOf(to.port, scheme) {
		return false
	}
	switch h.suffix {
	case "":
		return h.name == to.name
	case "*":
		return !to.ip
	}
	return strings.HasSuffix(to.name, h.suffix)
}

func portOf(port, scheme string) string {
	switch {
	case port != "":
		return port
	case scheme == "http":
		return "80"
	}
	return "443"
}

// parseHost parses an IP address or a name as it is in DNS and in certificates, with a port
// or without. It refuses texts that a resolver may read in another way, such as 0x7f.1, a number,
// and a dot at the end.
func parseHost(text string) (host, error) {
	name, port, hasPort := strings.Cut(text, ":")
	if rest, bracket := strings.CutPrefix(text, "["); bracket {
		var closed bool
		name, port, closed = strings.Cut(rest, "]")
		if addr, err := netip.ParseAddr(name); err != nil || !closed || !addr.Is6() || port != "" && port[0] != ':' {
			return host{}, errors.New("expected an IPv6 address in brackets")
		}
		port, hasPort = strings.CutPrefix(port, ":")
	}
	if n, err := strconv.ParseUint(port, 10, 16); hasPort && (err != nil || n == 0 || strconv.FormatUint(n, 10) != port) {
		return host{}, errors.New("expected a port from 1 to 65535")
	}
	if addr, err := netip.ParseAddr(name); err == nil && addr.Zone() == "" {
		return host{addr.Unmap().String(), true, port}, nil
	}
	if name = strings.ToLower(name); !isHostName(name) {
		return host{}, errors.New("expected the name of a host")
	}
	return host{name, false, port}, nil
}

// isHostName reports whether a name in lower case has the labels of RFC 1123 §2.1, and _,
// which internal names have. A last label that is a number makes an address of it
// (https://url.spec.whatwg.org/#ends-in-a-number-checker).
func isHostName(name string) bool {
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
			return false
		}
		last = label
	}
	return len(name) <= 253 && strings.Trim(last, "0123456789") != "" && !strings.HasPrefix(last, "0x")
}
