// Package webhook calls an HTTP service with the messages of a route:
//
//	route := pipeline.Route{Queue: "orders", Handler: webhook.New(webhook.Config{URL: "http://shop/orders"})}
//
// A service in Go can be a handler itself, and needs no HTTP.
package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/template/target"
	"github.com/watershipmq/watership/pipeline/internal/admission/breaker"
	"github.com/watershipmq/watership/pipeline/internal/call"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Config configures the handler. Only URL is required.
type Config struct {
	// URL is http or https. A password in it is sent, and shown nowhere. Its host, path and
	// query can have fields of the message, or it is one field:
	//
	//	https://{headers.merchant_host}/hooks/{body.json.merchant.id}
	//	{headers.callback_url}
	//
	// The fields are {headers.NAME}, {body.json.NAME}, where a.b is b in the object a,
	// {body:/JSON/POINTER} (RFC 6901) for names with dots, {message.id}, {correlation_id},
	// {type}, {exchange}, {routing_key} and {routing_key.1}, its first word. A value is a part of one segment of the path, or
	// of the query, whatever it is. A message with a field that is absent, empty or no text,
	// number or boolean is poison: see TargetError.
	URL string

	// Method is POST, PUT, PATCH or DELETE, or has fields whose values make one of these.
	// "": POST.
	Method string

	// SetHeaders are headers of the request by name, whose values can have fields. They
	// replace others of the name.
	SetHeaders map[string]string

	// Hosts are the hosts to which requests may be sent if the host of the URL has fields;
	// it must be set then. hooks.example.com is that host, *.example.com the names that end
	// so, and * every name, each with the default port or :PORT. An https:// or http://
	// before it is the only scheme; otherwise it is the one of URL, and https if all of URL
	// is a field.
	Hosts []string

	// PrivateNetworks are networks that such a host may be in. All other addresses that are
	// not of the internet are refused, at the time of the connection: private, loopback and
	// link-local ones, among others. A proxy is not used.
	PrivateNetworks []netip.Prefix

	Timeout time.Duration // of one request, its answer included; zero: 30 s

	// Answers give responses another meaning than New does, and a class. The first that
	// matches a response decides.
	Answers []Answer

	// KeepAnswers keeps the answers to successful requests in the record: status and the first KiB of the
	// body, as watership.answer of the `handled` events.
	KeepAnswers bool

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

	// Client sends the requests. Nil: a client that keeps up to 256 idle connections.
	// Redirects are not followed unless CheckRedirect is set, since following one may
	// turn a POST into a GET. If the host of the URL has fields, there is no CheckRedirect,
	// and the transport is nil or an *http.Transport without DialTLSContext: a copy of it
	// is used, with another DialContext and without Proxy.
	Client *http.Client
}

const (
	defaultTimeout       = 30 * time.Second
	defaultMaxRetryAfter = time.Hour
	errorBody            = 1 << 10   // bytes of a response that are kept in the error
	groupBody            = 16 << 10  // bytes of a response by which its failure is grouped
	bodyLimit            = 64 << 10  // bytes of a response in which Answer.Field is looked up
	drainLimit           = 256 << 10 // bytes that are read so that a connection can be used again
)

// New returns a handler that sends each message in a request: the body unchanged with its content
// type, and the properties of the message and of its attempt in headers that begin with
// "Watership-", the message's own headers among them (Config.Headers).
//
// If the message has an id, Idempotency-Key is the same at every attempt, and differs
// for each queue and each replay. Without an id there is no key: equal messages would have
// the same key, and the service would drop the second. A header Idempotency-Key of the
// message replaces it if Config.Headers has that name, also in a replay.
//
//	2xx                                                               handled
//	502, 503, 504, 429 with Retry-After, no connection                the service is unavailable: no attempt is lost
//	101, 3xx, 401, 403, 404, 405, 407, 408, 421, 425, 429, other 5xx  an attempt that failed, as one that timed out
//	any other                                                         poison at once
//
// Config.Answers change that. The service itself decides by headers of its response:
// Watership-Outcome has a Meaning, Watership-Class the class of the failure,
// Watership-Error-Type the type by which failures are grouped and searched, and
// Watership-Error-Group the group, in place of one by the text of the response.
//
// A message that cannot have a request is poison at once: see TargetError. If URL, Method,
// SetHeaders or Hosts are invalid (see Config.Validate), every message waits.
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
	templates
	invalid error           // of the templates
	headers map[string]bool // of Config.Headers, in the form of http.CanonicalHeaderKey

	bodyLimit int64 // bytes of a response that are read
}

func newPoster(cfg Config) *poster {
	cfg.Timeout = cmp.Or(max(cfg.Timeout, 0), defaultTimeout)
	cfg.MaxRetryAfter = cmp.Or(max(cfg.MaxRetryAfter, 0), defaultMaxRetryAfter)
	templates, invalid := cfg.templates()
	cfg.Client = cfg.client(templates.url.HostFromMessage())
	if cfg.Headers == nil {
		cfg.Headers = []string{"traceparent", "tracestate"}
	}
	headers := map[string]bool{}
	for _, name := range cfg.Headers {
		headers[http.CanonicalHeaderKey(name)] = true
	}
	limit := int64(groupBody)
	if slices.ContainsFunc(cfg.Answers, func(a Answer) bool { return a.Field != "" }) {
		limit = bodyLimit
	}
	return &poster{cfg, templates, invalid, headers, limit}
}

func (p *poster) post(ctx context.Context) error {
	if p.invalid != nil { // which is no fault of the message
		return retry.Unavailable(fmt.Errorf("the webhook cannot be called as it is configured: %w", p.invalid))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.Timeout, timeoutError{p.Timeout})
	defer cancel()
	e, _ := schemas.FromContext(ctx)
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	request, err := p.request(traced, e, retry.AttemptFrom(ctx))
	if err != nil {
		return err
	}
	to := shown(request.URL)
	answered, err := p.Client.Do(request)
	var refused *target.Problem
	switch {
	case errors.As(err, &refused):
		return targetError("URL", &target.Problem{Kind: refused.Kind, Text: to + " has " + refused.Text})
	case err != nil:
		return classifyRequestError(fmt.Errorf("sending to %s: %w", to, withoutURL(causeOf(ctx, err))), connected.Load())
	}
	defer answered.Body.Close()
	r := response{answered.StatusCode, header(answered), beginning(answered, p.bodyLimit)}
	if err = p.classify(to, r); err == nil && p.KeepAnswers {
		call.KeepAnswer(ctx, strings.TrimSpace(answered.Status+" "+r.text(errorBody)))
	}
	return err
}

// timeoutError is the cause of the end of a request without an answer in time. Go's text is the text of
// a context.
type timeoutError struct{ after time.Duration }

func (e timeoutError) Error() string { return fmt.Sprintf("timeout, no answer within %s", e.after) }

func (timeoutError) Unwrap() error { return context.DeadlineExceeded }

func causeOf(ctx context.Context, err error) error {
	var timeout timeoutError
	if errors.Is(err, context.DeadlineExceeded) && errors.As(context.Cause(ctx), &timeout) {
		return timeout
	}
	return err
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
		return "(which cannot be read)"
	}
	return shown(u)
}

// shown returns scheme and host of a URL, as the rest may be secret.
func shown(u *url.URL) string { return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String() }
