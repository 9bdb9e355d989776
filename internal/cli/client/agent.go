package client

import (
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/watershipmq/watership/internal/httpapi"
)

// Agents returns the transport of the Model Context Protocol to the server, with the same
// identity as other requests.
func (c connection) Agents() mcp.Transport {
	return &mcp.StreamableClientTransport{
		Endpoint:             c.base.JoinPath(httpapi.AgentPath).String(),
		HTTPClient:           &http.Client{Transport: identified{c}, CheckRedirect: checkRedirect},
		DisableStandaloneSSE: true, // the server sends nothing but answers
	}
}

// identified sends requests with the identity of a connection.
type identified struct{ connection }

// RoundTrip implements http.RoundTripper.
func (i identified) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	i.identify(r)
	return i.http.Transport.RoundTrip(r)
}
