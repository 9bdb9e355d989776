package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/schemas"
)

// HTTPConfig says where messages are posted, and what the answers mean. Only
// URL is required.
type HTTPConfig struct {
	URL     string        // http or https; a password in it is sent, and shown nowhere
	Timeout time.Duration // of one request, its answer included; zero: 30 s

	// Statuses say what answers mean, by status ("404") or by class of statuses
	// ("4xx"); a status goes before its class, and both before what HTTP says.
	Statuses map[string]Meaning

	// MaxRetryAfter caps what an answer's Retry-After may ask for. Zero: 1 h.
	MaxRetryAfter time.Duration

	// Client sends the requests. Nil: one of its own that keeps its connections.
	// Redirects are not followed unless it says so, since following one may
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

// HTTP is a handler that posts each message: the body as it is with its content
// type, message headers as request headers, and what Watership knows of the
// message in headers that begin with "Watership-".
//
// Where the message has an id of its own, Idempotency-Key is the same at every
// attempt, and another for each replay. Without an id there is none: equal
// messages could not be told apart, and the service would drop the second.
//
//	2xx                                    handled
//	408, 425, 429, 5xx, no answer          tried again, after Retry-After where the answer has one
//	3xx, 401, 403, 404, 405                the service is unavailable: the route pauses, no attempt is lost
//	any other                              poison at once
func HTTP(cfg HTTPConfig) message.HandlerFunc {
	poster := newHTTPPoster(cfg)
	return func(msg *message.Message) ([]*message.Message, error) {
		return nil, poster.post(msg.Context())
	}
}

type httpPoster struct {
	HTTPConfig
	shown string // the URL without its password and query
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
	return &httpPoster{cfg, shownURL(cfg.URL)}
}

func (p *httpPoster) post(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	e, _ := schemas.FromContext(ctx)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, bytes.NewReader(e.Body))
	if err != nil {
		return fmt.Errorf("making a request to %s: %w", p.shown, withoutURL(err))
	}
	setHeaders(request.Header, e, AttemptFrom(ctx))
	response, err := p.Client.Do(request)
	if err != nil {
		return fmt.Errorf("posting to %s: %w", p.shown, withoutURL(err))
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, responseLimit)) // the status says enough without it
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, drainLimit))
	return p.judge(&StatusError{response.StatusCode, p.shown, printable(text)}, response.Header)
}

// withoutURL drops the URL that the client's errors quote.
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
	u.RawQuery, u.Fragment = "", ""
	return u.Redacted()
}

func printable(text []byte) string {
	return strings.TrimSpace(strings.ToValidUTF8(string(text), "�"))
}
