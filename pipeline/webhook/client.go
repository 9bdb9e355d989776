package webhook

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"

	"github.com/watershipmq/watership/internal/template/target"
)

// idleConnections bounds the idle connections of a handler to all hosts, each of which takes a file and
// some memory for 90 s.
const idleConnections = 256

// longestHeader bounds the header of a response of a receiver that a message chose, in
// bytes; net/http would read 10 MB of each.
const longestHeader = 64 << 10

// client returns the client of a configuration. fromMessage says that messages choose hosts.
func (c Config) client(fromMessage bool) *http.Client {
	client := http.Client{}
	if c.Client != nil {
		client = *c.Client
	} else {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConns, transport.MaxIdleConnsPerHost = idleConnections, idleConnections
		if fromMessage { // since MaxIdleConns closes no connection of HTTP/2
			transport.Protocols = new(http.Protocols)
			transport.Protocols.SetHTTP1(true)
		}
		client.Transport = transport
	}
	if fromMessage {
		client.Transport = guarded(client.Transport, c.PrivateNetworks)
	}
	if client.CheckRedirect == nil {
		client.Transport = unfollowed{cmp.Or(client.Transport, http.DefaultTransport)}
	}
	return &client
}

// unfollowed returns redirects so that http.Client takes them for responses like others.
// CheckRedirect is asked too late for that: a Location that is no URL is an error before,
// with its text.
type unfollowed struct{ http.RoundTripper }

const hiddenLocation = ":location" // which no server can send

func (u unfollowed) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := u.RoundTripper.RoundTrip(request)
	if err == nil && response.Header["Location"] != nil {
		response.Header[hiddenLocation] = response.Header["Location"]
		delete(response.Header, "Location")
	}
	return response, err
}

// header returns the header of a response, with the Location that unfollowed hides.
func header(response *http.Response) http.Header {
	if location := response.Header[hiddenLocation]; location != nil {
		response.Header["Location"] = location
	}
	return response.Header
}

// canBeGuarded reports whether guarded can check the address of every connection.
func canBeGuarded(transport http.RoundTripper) bool {
	known, ok := transport.(*http.Transport)
	//lint:ignore SA1019 DialTLS is still called
	return transport == nil || ok && known.DialTLSContext == nil && known.DialTLS == nil
}

// guarded returns a transport that connects only to addresses that messages may choose. The
// check is of the address that is dialled, so it does not matter which address the name of the
// host has a moment before or after. A proxy would dial instead of it.
func guarded(transport http.RoundTripper, networks []netip.Prefix) http.RoundTripper {
	if transport == nil {
		transport = http.DefaultTransport
	}
	known, ok := transport.(*http.Transport)
	if !ok {
		return transport // templates has an error
	}
	known = known.Clone()
	known.Proxy = nil
	known.MaxResponseHeaderBytes = min(cmp.Or(known.MaxResponseHeaderBytes, longestHeader), longestHeader)
	known.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		return target.Dial(ctx, network, address, networks)
	}
	return known
}
