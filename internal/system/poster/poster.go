// Package poster posts events of subscriptions to URLs.
package poster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/template/target"
	"github.com/watershipmq/watership/pipeline/webhook"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/subscription"
)

// Poster posts events to URLs as webhooks of routes get them (package webhook), with the
// subscription and the position in headers. It connects only to addresses of the internet
// and of the networks that are allowed.
type Poster struct {
	client *http.Client

	mu       sync.Mutex // guards handlers
	handlers map[string]message.HandlerFunc
}

const idleConnections = 256

// New returns a Poster that may connect to the networks in addition to the internet.
// dial opens the connections in place of TCP; nil: TCP.
func New(networks []netip.Prefix, dial func(ctx context.Context, network, address string) (net.Conn, error)) *Poster {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = idleConnections, idleConnections
	transport.Proxy = nil // which would connect instead
	if transport.DialContext = dial; dial == nil {
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			return target.Dial(ctx, network, address, networks)
		}
	}
	return &Poster{client: &http.Client{Transport: marked{transport}}, handlers: map[string]message.HandlerFunc{}}
}

// CheckURL returns an error if events cannot be posted to the URL. Addresses of a host name are
// checked when it is resolved.
func CheckURL(address string, networks []netip.Prefix) error {
	if err := (webhook.Config{URL: address}).Validate(); err != nil {
		return err
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil // the first request fails
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && !target.IsAllowed(ip, networks) {
		return fmt.Errorf("the address %s is not of the internet: allow its network by subscriptions.private_networks", ip)
	}
	return nil
}

// Post posts an event.
func (p *Poster) Post(ctx context.Context, address string, d subscription.Delivery) error {
	m := message.NewMessage("", nil)
	m.SetContext(context.WithValue(ctx, deliveryKey{}, d))
	_, err := p.handler(address)(m)
	var refused *webhook.TargetError
	if errors.As(err, &refused) { // of the target and not of this message
		return retry.Unavailable(errors.New(err.Error()))
	}
	return err
}

// Close closes the idle connections.
func (p *Poster) Close() { p.client.CloseIdleConnections() }

func (p *Poster) handler(url string) message.HandlerFunc {
	p.mu.Lock()
	defer p.mu.Unlock()
	handle, found := p.handlers[url]
	if !found {
		handle = webhook.New(webhook.Config{URL: url, Client: p.client})
		p.handlers[url] = handle
	}
	return handle
}

type deliveryKey struct{}

// marked adds the headers of the subscription to requests.
type marked struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (m marked) RoundTrip(request *http.Request) (*http.Response, error) {
	if d, found := request.Context().Value(deliveryKey{}).(subscription.Delivery); found {
		request = request.Clone(request.Context())
		position := subscription.FormatPosition(d.Position)
		sum := sha256.Sum256([]byte(d.Subscription + "\n" + position))
		request.Header.Set("Idempotency-Key", hex.EncodeToString(sum[:16]))
		request.Header.Set("Watership-Subscription", d.Subscription)
		request.Header.Set("Watership-Subscription-Position", position)
		request.Header.Set("Watership-Subscription-Action", string(d.Event.RecordedAction()))
		if d.Event.ByPriority {
			request.Header.Set("Watership-Subscription-Order", "priority")
		}
	}
	return m.RoundTripper.RoundTrip(request)
}

// CloseIdleConnections closes the idle connections of the transport.
func (m marked) CloseIdleConnections() {
	(&http.Client{Transport: m.RoundTripper}).CloseIdleConnections()
}
