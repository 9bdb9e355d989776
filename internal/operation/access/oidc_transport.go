package access

import (
	"fmt"
	"io"
	"net/http"
)

// maxProviderResponse bounds a response of the OpenID provider, in bytes. The keys of large
// providers have some ten thousand.
const maxProviderResponse = 1 << 20

// boundedTransport bounds the responses of the OpenID provider, which anybody may cause, and which
// the libraries read as a whole.
type boundedTransport struct{ next http.RoundTripper } // nil: http.DefaultTransport

// RoundTrip implements http.RoundTripper. The transport decompresses no response, since the
// request names its encodings itself.
func (t boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Accept-Encoding", "identity")
	next := t.next
	if next == nil {
		next = http.DefaultTransport
	}
	response, err := next.RoundTrip(r)
	if err == nil {
		response.Body = &boundedBody{response.Body, maxProviderResponse}
	}
	return response, err
}

// boundedBody is a body whose reading fails beyond its bound.
type boundedBody struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *boundedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the response has more than %d bytes", maxProviderResponse)
	}
	return n, err
}

// refuseRedirect keeps the client secret and the codes of sign-ins at the provider.
func refuseRedirect(next *http.Request, _ []*http.Request) error {
	return fmt.Errorf("it redirects to %s://%s, which is not followed", next.URL.Scheme, next.URL.Host)
}
