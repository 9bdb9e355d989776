// Package webhook calls an HTTP service with the messages of a route:
//
//	route := pipeline.Route{Queue: "orders", Handler: webhook.New(webhook.Config{URL: "http://shop/orders"})}
//
// A service in Go can be a handler itself, and needs no HTTP.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/breaker"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Config configures the handler. Only URL is required.
type Config struct {
	URL     string        // http or https; a password in it is sent, and shown nowhere
	Timeout time.Duration // of one request, its answer included; zero: 30 s

	// Answers give responses another meaning than New does, and a class. The first that
	// matches a response decides.
	Answers []Answer

	// Headers are the names of message headers that become request headers under their
	// own names, in any case. Every other header is sent as Watership-Header-NAME:
	// otherwise publishers could set the headers of clients and proxies, such as
	// X-Forwarded-For, X-Http-Method-Override and Origin. A name with _ cannot be listed,
	// as many servers take it for a dash. Nil: traceparent and tracestate.
	Headers []string

	// Secrets sign each request as Standard Webhooks says
	// (https://www.standardwebhooks.com): with all of them, so that a receiver may still
	// know the former one. See ParseSecrets. Nil: no signature.
	Secrets [][]byte

	// MaxRetryAfter caps the delay of a Retry-After header. Zero: 1 h.
	MaxRetryAfter time.Duration

	// Client sends the requests. Nil: a client that keeps its connections.
	// Redirects are not followed unless CheckRedirect is set, since following one may
	// turn a POST into a GET.
	Client *http.Client
}

const (
	defaultTimeout       = 30 * time.Second
	defaultMaxRetryAfter = time.Hour
	errorBody            = 1 << 10   // bytes of a response that are kept in the error
	bodyLimit            = 64 << 10  // bytes of a response in which Answer.Field is looked up
	drainLimit           = 256 << 10 // bytes that are read so that a connection can be used again
	idleConnections      = 256
)

// New returns a handler that posts each message: the body unchanged with its content
// type, and the properties of the message and of its attempt in headers that begin with
// "Watership-", the message's own headers among them (Config.Headers).
//
// If the message has an id, Idempotency-Key is the same at every attempt, and differs
// for each queue and each replay. Without an id there is none: equal messages would have
// the same key, and the service would drop the second. A header Idempotency-Key of the
// message replaces it if Config.Headers has that name, also in a replay.
//
//	2xx                                                               handled
//	502, 503, 504, 429 with Retry-After, no connection                the service is unavailable: no attempt is lost
//	101, 3xx, 401, 403, 404, 405, 407, 408, 421, 425, 429, other 5xx  an attempt that failed, as one that timed out
//	any other                                                         poison at once
//
// Config.Answers change that. The service itself decides by headers of its response:
// Watership-Outcome has a Meaning, Watership-Class the class of the failure, and
// Watership-Error-Type the type by which failures are grouped and searched.
//
// Retry-After may make a message wait longer than its policy does. If many messages in a
// row fail, by any but the last, the breaker of the route opens.
func New(cfg Config) message.HandlerFunc {
	p := newPoster(cfg)
	return func(msg *message.Message) ([]*message.Message, error) {
		return nil, p.post(msg.Context())
	}
}

type poster struct {
	Config
	shown   string          // scheme and host of the URL
	headers map[string]bool // of Config.Headers, in the form of http.CanonicalHeaderKey

	bodyLimit int64 // bytes of a response that are kept
}

func newPoster(cfg Config) *poster {
	cfg.Timeout = cmp.Or(max(cfg.Timeout, 0), defaultTimeout)
	cfg.MaxRetryAfter = cmp.Or(max(cfg.MaxRetryAfter, 0), defaultMaxRetryAfter)
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
	limit := int64(errorBody)
	if slices.ContainsFunc(cfg.Answers, func(a Answer) bool { return a.Field != "" }) {
		limit = bodyLimit
	}
	return &poster{cfg, shownURL(cfg.URL), headers, limit}
}

func (p *poster) post(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	e, _ := schemas.FromContext(ctx)
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	request, err := http.NewRequestWithContext(traced, http.MethodPost, p.URL, bytes.NewReader(e.Body))
	if err != nil {
		return fmt.Errorf("creating a request to %s: %w", p.shown, withoutURL(err))
	}
	attempt := retry.AttemptFrom(ctx)
	p.setHeaders(request.Header, e, attempt)
	p.sign(request.Header, idempotencyKey(e, attempt), e.Body)
	answered, err := p.Client.Do(request)
	if err != nil {
		return classifyRequestError(fmt.Errorf("posting to %s: %w", p.shown, withoutURL(err)), connected.Load())
	}
	defer answered.Body.Close()
	return p.classify(response{answered.StatusCode, answered.Header, beginning(answered, p.bodyLimit)})
}

// beginning reads a response so that its connection can be used again, and returns the
// first bytes of its body. The status is enough if the body cannot be read. The bytes
// after a 101 belong to another protocol, and no time-out of net/http ends them.
func beginning(response *http.Response, limit int64) []byte {
	if response.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, limit))
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
