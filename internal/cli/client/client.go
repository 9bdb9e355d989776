// Package client uses the HTTP API of a server: what commands do with RabbitMQ and the
// store, without the logins of either.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/schemas"
)

// Config is the address of a server and the identity of its client.
type Config struct {
	URL       string      // http or https, with the path at which a proxy serves it
	Token     string      // "": none, which a server on this machine may admit
	TLS       *tls.Config // nil: the certificate authorities of the system
	Cleartext bool        // the token may travel without TLS to another machine
	Reason    string      // why bodies and originals are read; "": Ask says it, once the server wants to know

	// Ask asks the user why bodies are read. nil: there is nobody to ask.
	Ask func(ctx context.Context) (reason string, err error)
}

// Client does operations on a server.
type Client struct {
	connection
	system.Language
	server httpapi.Version
}

// connection sends requests to a server.
type connection struct {
	base  *url.URL // with httpapi.Prefix
	token string
	http  *http.Client
	why   *reason
}

// Times after which a server counts as away.
const (
	dialTimeout    = 10 * time.Second
	connectTimeout = 20 * time.Second        // until Connect has an answer
	readTimeout    = 30*time.Second + margin // until a stream begins
	idleTimeout    = time.Minute             // without a byte of a stream, which has one every 15 seconds
	margin         = 15 * time.Second        // after the time that the server has for an operation
)

// Connect asks a server for its version and settings. Mistakes in the configuration are
// InputErrors.
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	connected, err := newConnection(cfg)
	if err != nil {
		return nil, err
	}
	c := &Client{connection: connected}
	limited, cancel := context.WithTimeoutCause(ctx, connectTimeout, fmt.Errorf("no answer within %s", connectTimeout))
	defer cancel()
	version, err := httpapi.GetVersion.Call(limited, c, struct{}{})
	if err != nil {
		return nil, err
	}
	c.server = version.Body
	switch documents := c.server.Documents; {
	case documents < schemas.DocumentVersion:
		return nil, c.errorf("version %s of the server is older than this command (%s): update the server, or use the command of its version", c.version(), system.Version())
	case documents > schemas.DocumentVersion:
		return nil, c.errorf("version %s of the server is newer than this command (%s): use the command of its version", c.version(), system.Version())
	}
	s := c.server.Settings
	c.Language = system.NewLanguage(schemas.DocumentFormat{
		Labels: s.Labels, NumericLabels: s.NumericLabels, NoBodyText: !s.BodyText, NoBodyJSON: !s.BodyJSON, MaxValues: s.BodyMaxValues,
	})
	return c, nil
}

func newConnection(cfg Config) (c connection, err error) {
	base, err := url.Parse(strings.TrimSuffix(strings.TrimSuffix(cfg.URL, "/"), httpapi.Prefix) + httpapi.Prefix)
	if err != nil {
		return c, system.InputError{Err: fmt.Errorf("server %s cannot be read", cfg.URL)}
	}
	if cfg.Token != "" && base.Scheme == "http" && !cfg.Cleartext && !isLoopback(base.Hostname()) {
		return c, system.InputError{Err: fmt.Errorf("server %s: others in the network could read the token: use https://, or allow it with --server-cleartext true", cfg.URL)}
	}
	if strings.ContainsFunc(cfg.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return c, system.InputError{Err: errors.New("token_file: expected a token on one line, as watership token create prints it")}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
	if cfg.TLS != nil {
		transport.TLSClientConfig = cfg.TLS
	}
	return connection{base: base, token: cfg.Token, why: newReason(cfg), http: &http.Client{Transport: transport, CheckRedirect: checkRedirect}}, nil
}

// checkRedirect follows redirects within the server alone: another one must not get the
// token.
func checkRedirect(next *http.Request, before []*http.Request) error {
	if first := before[0].URL; next.URL.Scheme != first.Scheme || next.URL.Host != first.Host {
		return &redirectError{next.URL.Scheme + "://" + next.URL.Host}
	}
	switch {
	case next.Method != before[0].Method:
		return errors.New("it redirects a request that acts")
	case len(before) > 5:
		return errors.New("it redirects again and again")
	}
	return nil
}

// redirectError reports a redirect to another server.
type redirectError struct{ to string }

// Error implements error.
func (e *redirectError) Error() string {
	return "it redirects to " + e.to + ", which does not get the token: if that is the server, give its address with --server"
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// Close closes the connections.
func (c connection) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Address returns the URL of the server.
func (c connection) Address() string { return strings.TrimSuffix(c.base.String(), httpapi.Prefix) }

// Version returns the version of the server, its settings and the caller's permissions, as they were when
// Connect asked.
func (c *Client) Version(context.Context) (httpapi.Version, error) { return c.server, nil }

// version returns the server's version for people.
func (c *Client) version() string {
	if c.server.Version == "" {
		return "(unknown)"
	}
	return c.server.Version
}

// newKey returns an Idempotency-Key.
func newKey() string { return rand.Text() }

type request struct {
	method, path string
	query        url.Values
	header       http.Header
	body         []byte
}

func (c connection) do(ctx context.Context, timeout time.Duration, r request, into any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s", timeout))
	defer cancel()
	response, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse+1))
	if err != nil {
		return c.away(ctx, err)
	}
	if len(body) > maxResponse {
		return c.away(ctx, errTooLarge)
	}
	if raw, is := into.(*[]byte); is {
		*raw = body
		return nil
	}
	if into == nil { // the caller needs no more than the success
		if response.StatusCode == http.StatusNoContent {
			return nil
		}
		into = new(json.RawMessage)
	}
	if !isType(response, "application/json") || json.Unmarshal(body, into) != nil {
		return c.notWatership(response)
	}
	return nil
}

// maxResponse bounds a response, and a line of a stream. The largest have a message of
// RabbitMQ, whose limit is 128 MiB by default at most, with a body as text.
const maxResponse = 256 << 20

var errTooLarge = fmt.Errorf("it sent more than %d MiB at once", maxResponse>>20)

// maxRefused is how often a request is sent again that the server has refused, as the
// client has sent too many.
const maxRefused = 10

// send sends a request. A response that is no success becomes an error. A server that
// limits requests has begun none that it refuses, so that they are sent again.
func (c connection) send(ctx context.Context, r request) (*http.Response, error) {
	for tries := 1; ; tries++ {
		response, err := c.sendOnce(ctx, r)
		var refused *Error
		if !errors.As(err, &refused) || refused.Status != http.StatusTooManyRequests || tries == maxRefused {
			return response, err
		}
		if err := backoff.Sleep(ctx, max(refused.retryAfter, time.Second)); err != nil {
			return nil, c.away(ctx, err)
		}
	}
}

// identify gives a request the headers that say who sends it, and why it reads.
func (c connection) identify(r *http.Request) {
	r.Header.Set("User-Agent", "watership/"+system.Version())
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if reason := c.why.given(); reason != "" {
		r.Header.Set(access.ReasonHeader, reason)
	}
}

func (c connection) sendOnce(ctx context.Context, r request) (*http.Response, error) {
	to := *c.base
	to.RawQuery = r.query.Encode()
	address := to.JoinPath(r.path).String()
	sent, err := http.NewRequestWithContext(ctx, r.method, address, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	maps.Copy(sent.Header, r.header)
	c.identify(sent)
	response, err := c.http.Do(sent)
	if err != nil {
		return nil, c.away(ctx, err)
	}
	if response.StatusCode/100 == 2 {
		return response, nil
	}
	defer response.Body.Close()
	return nil, c.refusal(response)
}
