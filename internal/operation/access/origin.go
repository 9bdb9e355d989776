package access

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/watershipmq/watership/internal/operation/code"
)

// clientAddress returns the address of the client of a request. Only proxies that the
// configuration trusts may name another one than the address of the connection.
func clientAddress(r *http.Request, trusted []netip.Prefix) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	address := peer.Addr().Unmap().WithZone("")
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for len(hops) > 0 && within(address, trusted) {
		last, err := netip.ParseAddr(strings.TrimSpace(hops[len(hops)-1]))
		if err != nil {
			break
		}
		address, hops = last.Unmap().WithZone(""), hops[:len(hops)-1]
	}
	return address
}

func within(address netip.Addr, networks []netip.Prefix) bool {
	for _, network := range networks {
		if network.Contains(address) {
			return true
		}
	}
	return false
}

// checkLoopback refuses a request unless a program of this machine sent it to this machine.
// Another site that a browser shows could otherwise send requests with the name of
// this machine, or with its own name that resolves to a loopback address (DNS
// rebinding), and a proxy could pass on the requests of other machines.
func checkLoopback(r *http.Request) error {
	const configure = "configure http.auth (docs/people.md)"
	if !clientAddress(r, nil).IsLoopback() {
		return &Error{Code: code.Forbidden, Problem: "without http.auth the server answers only to this machine: connect to a loopback address, or " + configure}
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"} {
		if len(r.Header.Values(name)) > 0 {
			return &Error{Code: code.Forbidden, Problem: "the request came through a proxy (" + name + "), and without http.auth the server answers only to this machine: " + configure}
		}
	}
	if !isLoopbackHost(r.Host) {
		return &Error{Code: code.Misdirected, Problem: "the host of the URL is another than this machine: use localhost or a loopback address, or " + configure}
	}
	return nil
}

// isLoopbackHost reports whether the value of the header Host is a loopback name or address.
func isLoopbackHost(hostport string) bool {
	host := hostport
	if name, _, err := net.SplitHostPort(hostport); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil && address.Unmap().IsLoopback()
}

// newCrossOriginProtection returns net/http's protection of requests that change something.
func newCrossOriginProtection(public *url.URL) (*http.CrossOriginProtection, error) {
	protection := http.NewCrossOriginProtection()
	if public == nil {
		return protection, nil
	}
	if err := protection.AddTrustedOrigin(originOf(public)); err != nil {
		return nil, fmt.Errorf("http.url: %w", err)
	}
	return protection, nil
}

func originOf(u *url.URL) string { return u.Scheme + "://" + u.Host }

// checkSite refuses requests that another site made a browser send, also those that change
// nothing: they cost time, and their effects can be observed. A link on another site
// to a page is fine.
func (g *Guard) checkSite(r *http.Request) error {
	refused := &Error{Code: code.Forbidden, Problem: "another site sent the request (Origin or Sec-Fetch-Site): open the server's own pages, or send no Origin"}
	if err := g.crossOrigin.Check(r); err != nil {
		return refused
	}
	if origins := r.Header.Values("Origin"); len(origins) > 1 || len(origins) == 1 && !g.sameOrigin(origins[0], r) {
		return refused
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return nil
	}
	if isSafe(r.Method) && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" {
		return nil
	}
	return refused
}

// sameOrigin reports whether an origin is the server's. A proxy may have ended TLS.
func (g *Guard) sameOrigin(origin string, r *http.Request) bool {
	if g.public != nil && origin == originOf(g.public) {
		return true
	}
	return strings.EqualFold(origin, "https://"+r.Host) || r.TLS == nil && strings.EqualFold(origin, "http://"+r.Host)
}

// isSafe reports whether requests with a method change nothing (RFC 9110, section 9.2.1).
func isSafe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}
