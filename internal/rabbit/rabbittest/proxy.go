package rabbittest

import (
	"net/url"
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Proxy is a toxiproxy between a test and its broker.
type Proxy struct {
	URL string // the broker's URL, through the proxy

	t     testing.TB
	proxy *toxiproxy.Proxy
}

// Proxy starts a proxy that ends with the test.
func (a Address) Proxy(t testing.TB) *Proxy {
	t.Helper()
	u, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	proxy := toxiproxy.NewProxy(server, "broker", FreeAddress(t), u.Host)
	if err := proxy.Start(); err != nil {
		t.Fatalf("start proxy: %v", err)
	}
	u.Host = proxy.Listen
	p := &Proxy{URL: u.String(), t: t, proxy: proxy}
	t.Cleanup(p.Cut)
	return p
}

// Cut closes every connection and refuses new ones.
func (p *Proxy) Cut() { p.proxy.Stop() }

// Mend accepts connections again, on the same port.
func (p *Proxy) Mend() {
	p.t.Helper()
	if err := p.proxy.Start(); err != nil {
		p.t.Fatalf("start proxy again: %v", err)
	}
}

// Add adds a toxic in toxiproxy's own notation, such as
// {"name":"cut","type":"limit_data","stream":"downstream","attributes":{"bytes":100}}.
func (p *Proxy) Add(toxic string) {
	p.t.Helper()
	if _, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		p.t.Fatalf("add toxic: %v", err)
	}
}

// Remove removes a toxic by its name.
func (p *Proxy) Remove(name string) {
	p.t.Helper()
	if err := p.proxy.Toxics.RemoveToxic(p.t.Context(), name); err != nil {
		p.t.Fatalf("remove toxic: %v", err)
	}
}
