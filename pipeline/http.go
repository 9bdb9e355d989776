package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/breaker"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// HTTPConfig configures the handler HTTP. Only URL is required.
type HTTPConfig struct {
	URL     string        // http or https; a password in it is sent, and shown nowhere
	Timeout time.Duration // of one request, its answer included; zero: 30 s

	// Statuses map a status ("404") or a class of statuses ("4xx") to its meaning; a
	// status takes precedence over its class, and both over the defaults of HTTP.
	Statuses map[string]Meaning

	// Headers are the names of message headers that become request headers under their
	// own names, in any case. Every other header is sent as Watership-Header-NAME:
	// otherwise publishers could set the headers of clients and proxies, such as
	// X-Forwarded-For, X-Http-Method-Override and Origin. A name with _ cannot be listed,
	// as many servers take it for a dash. Nil: traceparent and tracestate.
	Headers []string

	// MaxRetryAfter caps the delay of a Retry-After header. Zero: 1 h.
	MaxRetryAfter time.Duration

	// Client sends the requests. Nil: a client that keeps its connections.
	// Redirects are not followed unless CheckRedirect is set, since following one may
	// turn a POST into a GET.
	Client *http.Client
}

const (
	defaultHTTPTimeout   = 30 * time.Second
	defaultMaxRetryAfter = time.Hour
	responseLimit        = 1 << 10   // bytes of a response that are kept in the error
	drainLimit           = 256 << 10 // bytes that are read so that a connection can be used again
	idleConnections      = 256
)

// HTTP returns a handler that posts each message: the body unchanged with its content
// type, and the properties of the message and of its attempt in headers that begin with
// "Watership-", the message's own headers among them (HTTPConfig.Headers).
//
// If the message has an id, Idempotency-Key is the same at every attempt, and differs
// for each queue and each replay. Without an id there is none: equal messages would have
// the same key, and the service would drop the second. A header Idempotency-Key of the
// message replaces it if HTTPConfig.Headers has that name, also in a replay.
//
//	2xx                                                               handled
//	502, 503, 504, 429 with Retry-After, no connection                the service is unavailable: no attempt is lost
//	101, 3xx, 401, 403, 404, 405, 407, 408, 421, 425, 429, other 5xx  an attempt that failed, as one that timed out
//	any other                                                         poison at once
//
// Retry-After may make a message wait longer than its policy does. If many messages in a
// row fail, by any but the last, the breaker of the route opens.
func HTTP(cfg HTTPConfig) message.HandlerFunc {
	poster := newHTTPPoster(cfg)
	return func(msg *message.Message) ([]*message.Message, error) {
		return nil, poster.post(msg.Context())
	}
}

type httpPoster struct {
	HTTPConfig
	shown   string          // scheme and host of the URL
	headers map[string]bool // of HTTPConfig.Headers, in the form of http.CanonicalHeaderKey
}

func newHTTPPoster(cfg HTTPConfig) *httpPoster {
	orElse(&cfg.Timeout, defaultHTTPTimeout)
	orElse(&cfg.MaxRetryAfter, defaultMaxRetryAfter)
	client := http.Client{}
	if cfg.Client != nil {
		client = *cfg.Client
	} else {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, idleConnections
		client.Transport = transport
	}
	if client.CheckRedirect == nil {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	cfg.Client = &client
	if cfg.Headers == nil {
		cfg.Headers = []string{"traceparent", "tracestate"}
	}
	headers := map[string]bool{}
	for _, name := range cfg.Headers {
		headers[http.CanonicalHeaderKey(name)] = true
	}
	return &httpPoster{cfg, shownURL(cfg.URL), headers}
}

func (p *httpPoster) post(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	e, _ := schemas.FromContext(ctx)
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	request, err := http.NewRequestWithContext(traced, http.MethodPost, p.URL, bytes.NewReader(e.Body))
	if err != nil {
		return fmt.Errorf("creating a request to %s: %w", p.shown, withoutURL(err))
	}
	p.setHeaders(request.Header, e, AttemptFrom(ctx))
	response, err := p.Client.Do(request)
	if err != nil {
		return classifyRequestError(fmt.Errorf("posting to %s: %w", p.shown, withoutURL(err)), connected.Load())
	}
	defer response.Body.Close()
	return p.classifyResponse(&StatusError{response.StatusCode, p.shown, printable(beginning(response))}, response.Header)
}

// beginning reads a response so that its connection can be used again, and returns the
// first bytes of its body. The status is enough if the body cannot be read. The bytes
// after a 101 belong to another protocol, and no time-out of net/http ends them.
func beginning(response *http.Response) []byte {
	if response.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, responseLimit))
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, drainLimit))
	return text
}

// classifyRequestError classifies the error of a request without a response. A request that was sent
// and timed out may be the fault of the message.
func classifyRequestError(err error, connected bool) error {
	if connected && breaker.CauseOf(err) == breaker.TimedOut {
		return err
	}
	return retry.Unavailable(err)
}

// withoutURL removes the URL that the client's errors quote.
func withoutURL(err error) error {
	var quoted *url.Error
	if errors.As(err, &quoted) {
		return quoted.Err
	}
	return err
}

func shownURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "a URL that cannot be read"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

func printable(text []byte) string {
	return strings.TrimSpace(strings.ToValidUTF8(string(text), "�"))
}
