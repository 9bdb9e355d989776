package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// thisMachine is the network of servers of tests.
func thisMachine() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

// keeping is a server that keeps its requests.
func keeping(t *testing.T) (*httptest.Server, chan *http.Request) {
	requests := make(chan *http.Request, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { requests <- r }))
	t.Cleanup(server.Close)
	return server, requests
}

// One handler calls the receiver of each message, with its method, path and headers.
func TestTargetOfTheMessage(t *testing.T) {
	server, requests := keeping(t)
	host := strings.TrimPrefix(server.URL, "http://")
	cfg := Config{
		URL:    "http://{headers.merchant_host}/hooks/{body.json.merchant.id}/{body:/lines/1/sku.no}?key={routing_key}&n={headers.n}&paid={body.json.paid}",
		Method: "{headers.verb}", Hosts: []string{"*.example.com", host}, PrivateNetworks: thisMachine(),
		SetHeaders: map[string]string{
			"Authorization": "Bearer {headers.token}", "content-type": "application/json", "X-Source": "shop", "Idempotency-Key": "{message.id}-{type}",
		},
		Secrets: [][]byte{make([]byte, 32)},
	}
	e := schemas.Envelope{
		Exchange: "shop", RoutingKey: "order paid&x=y", Body: []byte(`{"merchant": {"id": "m/7"}, "lines": [1, {"sku.no": 1.50}], "paid": true}`),
		Properties: schemas.Properties{ContentType: "text/plain", MessageID: "m1", Type: "paid"},
		Headers:    amqp.Table{"merchant_host": host, "verb": "PATCH", "token": "t0ken", "n": int64(-5)},
	}
	err := post(cfg, e, retry.Attempt{})
	var refused *TargetError
	if !errors.As(err, &refused) || refused.Type != "field_invalid" || refused.Template != "URL" || !strings.Contains(err.Error(), "body.json.merchant.id has a slash") || meaningOf(err) != Poison {
		t.Errorf("a slash: %v", err)
	}
	e.Body = []byte(strings.Replace(string(e.Body), "m/7", "m 7", 1))
	if err := post(cfg, e, retry.Attempt{}); err != nil {
		t.Fatal(err)
	}
	r := rabbittest.Receive(t, requests)
	if r.Method != "PATCH" || r.Host != host || r.RequestURI != "/hooks/m%207/1.50?key=order+paid%26x%3Dy&n=-5&paid=true" {
		t.Errorf("it is %s %s to %s", r.Method, r.RequestURI, r.Host)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer t0ken", "Content-Type": "application/json", "X-Source": "shop", "Idempotency-Key": "m1-paid", "Watership-Header-Token": "t0ken",
	} {
		if got := r.Header[name]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if r.Header.Get("Webhook-Signature") == "" {
		t.Error("it is not signed")
	}
	e.Headers["callback"] = server.URL + "/a/../b?c=%20d"
	whole := Config{URL: "{headers.callback}", Hosts: []string{server.URL}, PrivateNetworks: thisMachine(), Method: "PUT"}
	if err := post(whole, e, retry.Attempt{}); err != nil {
		t.Fatal(err)
	}
	if r := rabbittest.Receive(t, requests); r.Method != "PUT" || r.RequestURI != "/a/../b?c=%20d" {
		t.Errorf("it is %s %s", r.Method, r.RequestURI)
	}
}

// A host that the configuration names is as free as without fields.
func TestFieldsBesideAFixedHost(t *testing.T) {
	server, requests := keeping(t)
	e := schemas.Envelope{Headers: amqp.Table{"tenant": "a b"}}
	cfg := Config{URL: strings.Replace(server.URL, "http://", "http://user:pass@", 1) + "/{headers.tenant}"}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	if err := post(cfg, e, retry.Attempt{}); err != nil {
		t.Fatal(err)
	}
	r := rabbittest.Receive(t, requests)
	if user, pass, _ := r.BasicAuth(); r.RequestURI != "/a%20b" || user != "user" || pass != "pass" {
		t.Errorf("%s with %s:%s", r.RequestURI, user, pass)
	}
}

// sent is the handler with requests that do not leave the process.
func sent(cfg Config, answer roundTrip) *poster {
	p := newPoster(cfg)
	p.Client.Transport = unfollowed{answer}
	return p
}

// A message makes no request but one to an allowed host, or none: then it is poison, and
// its error names the template and the field, and no value.
func TestHostileMessages(t *testing.T) {
	const missing, invalid, host = "field_missing", "field_invalid", "host_not_allowed"
	for name, test := range map[string]struct {
		headers amqp.Table
		body    string
		want    string // type of the error, or the URL and the header
	}{
		"fine":                        {amqp.Table{}, "", "https://a.example.com/hooks/m1?q=1 Bearer t"},
		"upper case":                  {amqp.Table{"h": "A.Example.COM"}, "", "https://a.example.com/hooks/m1?q=1 Bearer t"},
		"number":                      {amqp.Table{"q": 2.5, "t": true}, `{"id": 17}`, "https://a.example.com/hooks/17?q=2.5 Bearer true"},
		"time":                        {amqp.Table{"q": time.Unix(0, 0)}, "", "https://a.example.com/hooks/m1?q=1970-01-01T00%3A00%3A00Z Bearer t"},
		"parameters in a query":       {amqp.Table{"q": "1&admin=1#x?y/../"}, "", "https://a.example.com/hooks/m1?q=1%26admin%3D1%23x%3Fy%2F..%2F Bearer t"},
		"path with escapes":           {amqp.Table{}, `{"id": "%2f..%2fadmin;x=y?a#b"}`, "https://a.example.com/hooks/%252f..%252fadmin%3Bx=y%3Fa%23b?q=1 Bearer t"},
		"escapes in JSON":             {amqp.Table{}, `{"i\u0064": "\u006d1"}`, "https://a.example.com/hooks/m1?q=1 Bearer t"},
		"host absent":                 {amqp.Table{"h": nil}, "", missing},
		"host empty":                  {amqp.Table{"h": ""}, "", missing},
		"login in a host":             {amqp.Table{"h": "secret@a.example.com"}, "", invalid},
		"host as a login":             {amqp.Table{"h": "a.example.com@secret.example.net"}, "", invalid},
		"fragment in a host":          {amqp.Table{"h": "secret.example.net#.example.com"}, "", invalid},
		"query in a host":             {amqp.Table{"h": "secret.example.net?.example.com"}, "", invalid},
		"backslash in a host":         {amqp.Table{"h": `secret.example.net\.example.com`}, "", invalid},
		"escaped slash in a host":     {amqp.Table{"h": "secret.example.net%2f.example.com"}, "", invalid},
		"slashes in a host":           {amqp.Table{"h": "//secret.example.net//.example.com"}, "", invalid},
		"dot after a host":            {amqp.Table{"h": "a.example.com."}, "", invalid},
		"another host":                {amqp.Table{"h": "example.com"}, "", host},
		"another port":                {amqp.Table{"h": "a.example.com:22"}, "", host},
		"letters of another alphabet": {amqp.Table{"h": "а.example.com"}, "", invalid},
		"wide dot":                    {amqp.Table{"h": "a。example.com"}, "", invalid},
		"hexadecimal address":         {amqp.Table{"h": "0x7f.1"}, "", invalid},
		"number as address":           {amqp.Table{"h": int64(2130706433)}, "", invalid},
		"octal address":               {amqp.Table{"h": "0177.0.0.01"}, "", invalid},
		"address":                     {amqp.Table{"h": "127.0.0.1"}, "", host},
		"address with a zone":         {amqp.Table{"h": "[fe80::1%25lo]"}, "", invalid},
		"line break in a host":        {amqp.Table{"h": "a.example.com\r\nX: y"}, "", invalid},
		"NUL in a host":               {amqp.Table{"h": "secret.example.net\x00.example.com"}, "", invalid},
		"huge host":                   {amqp.Table{"h": strings.Repeat("a.", 1<<20) + "example.com"}, "", invalid},
		"table":                       {amqp.Table{"q": amqp.Table{"secret": "x"}}, "", invalid},
		"list of a header":            {amqp.Table{"q": []any{"secret"}}, "", invalid},
		"bytes":                       {amqp.Table{"q": []byte("secret")}, "", invalid},
		"segments":                    {amqp.Table{}, `{"id": "m1/secret"}`, invalid},
		"segments of Windows":         {amqp.Table{}, `{"id": "m1\\secret"}`, invalid},
		"parent":                      {amqp.Table{}, `{"id": ".."}`, invalid},
		"NUL in a path":               {amqp.Table{}, `{"id": "secret\u0000"}`, invalid},
		"huge path":                   {amqp.Table{}, `{"id": "` + strings.Repeat("secret", 2000) + `"}`, invalid},
		"no UTF-8":                    {amqp.Table{"q": "secret\xff"}, "", invalid},
		"header in a header":          {amqp.Table{"t": "secret\r\nX-Admin: 1"}, "", invalid},
		"request in a header":         {amqp.Table{"t": "x\r\n\r\nGET /secret HTTP/1.1"}, "", invalid},
		"token absent":                {amqp.Table{"t": nil}, "", missing},
		"no JSON":                     {amqp.Table{}, `id=secret`, missing},
		"JSON and more":               {amqp.Table{}, `{"id": "secret"} {}`, missing},
		"empty body":                  {amqp.Table{}, " ", missing},
		"field of JSON absent":        {amqp.Table{}, `{"ID": "secret"}`, missing},
		"null":                        {amqp.Table{}, `{"id": null}`, missing},
		"object":                      {amqp.Table{}, `{"id": {"id": "secret"}}`, invalid},
		"list":                        {amqp.Table{}, `{"id": ["secret"]}`, invalid},
		"twice":                       {amqp.Table{}, `{"id": "m1", "id": "secret"}`, invalid},
		"twice, escaped":              {amqp.Table{}, `{"id": "m1", "\u0069d": "secret"}`, invalid},
		"deep":                        {amqp.Table{}, strings.Repeat(`{"id":`, 20_000) + "1" + strings.Repeat("}", 20_000), missing},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			p := sent(Config{
				URL: "https://{headers.h}/hooks/{body.json.id}?q={headers.q}", Hosts: []string{"*.example.com"},
				SetHeaders: map[string]string{"Authorization": "Bearer {headers.t}"},
			}, func(r *http.Request) (*http.Response, error) {
				got = r.URL.String() + " " + r.Header.Get("Authorization")
				return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
			})
			headers := amqp.Table{"h": "a.example.com", "q": "1", "t": "t"}
			maps.Copy(headers, test.headers)
			body := test.body
			if body == "" {
				body = `{"id": "m1"}`
			}
			err := p.post(schemas.NewContext(t.Context(), schemas.Envelope{Headers: headers, Body: []byte(body)}))
			if err == nil {
				if got != test.want {
					t.Errorf("sent to %s, want %s", got, test.want)
				}
				return
			}
			var refused *TargetError
			if !errors.As(err, &refused) || retry.TypeOf(err) != test.want || meaningOf(err) != Poison || got != "" {
				t.Errorf("%v of type %s after %q, want %s", err, retry.TypeOf(err), got, test.want)
			}
			if text := err.Error(); len(text) > 300 || strings.Contains(text, "secret") || !strings.Contains(text, " of the request: ") {
				t.Errorf("the error is %.400q", text)
			}
		})
	}
}

// A method of a message is one of the list.
func TestMethodOfTheMessage(t *testing.T) {
	p := sent(Config{URL: "http://h/", Method: "{headers.verb}"}, func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(r.Method))}, nil
	})
	for verb, want := range map[string]string{"POST": "", "PUT": "", "PATCH": "", "DELETE": "", "GET": "field_invalid", "CONNECT": "field_invalid", "put": "field_invalid", "PUT ": "field_invalid", "": "field_missing"} {
		err := p.post(schemas.NewContext(t.Context(), schemas.Envelope{Headers: amqp.Table{"verb": verb}}))
		if want == "" && err != nil || want != "" && (err == nil || retry.TypeOf(err) != want || !strings.Contains(err.Error(), "headers.verb") || !strings.HasPrefix(err.Error(), "method of the request: ")) {
			t.Errorf("%q: %v, want %s", verb, err, want)
		}
	}
}

// An address is checked when it is dialled, by whatever name it is known, and a proxy does
// not dial instead.
func TestPrivateAddresses(t *testing.T) {
	server, requests := keeping(t)
	port := server.URL[strings.LastIndex(server.URL, ":"):]
	t.Setenv("HTTP_PROXY", server.URL)
	for _, host := range []string{"localhost" + port, "127.0.0.1" + port, "[::ffff:127.0.0.1]" + port} {
		cfg := Config{URL: "http://{headers.h}/", Hosts: []string{"localhost" + port, "127.0.0.1" + port}}
		err := post(cfg, schemas.Envelope{Headers: amqp.Table{"h": host}}, retry.Attempt{})
		if err == nil || retry.TypeOf(err) != "address_not_allowed" || meaningOf(err) != Poison || !strings.Contains(err.Error(), " has the address ") || !strings.Contains(err.Error(), "http://") {
			t.Errorf("%s: got %v of type %s", host, err, retry.TypeOf(err))
		}
		cfg.PrivateNetworks = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		if err := post(cfg, schemas.Envelope{Headers: amqp.Table{"h": host}}, retry.Attempt{}); err == nil || retry.TypeOf(err) != "address_not_allowed" {
			t.Errorf("%s: got %v of type %s", host, err, retry.TypeOf(err))
		}
	}
	cfg := Config{URL: "http://{headers.h}/", Hosts: []string{"localhost" + port}, PrivateNetworks: append(thisMachine(), netip.MustParsePrefix("::1/128"))}
	if err := post(cfg, schemas.Envelope{Headers: amqp.Table{"h": "localhost" + port}}, retry.Attempt{}); err != nil {
		t.Error(err)
	}
	rabbittest.Receive(t, requests)
	if len(requests) > 0 {
		t.Error("a request was sent to an address that is not allowed")
	}
}

// A client of the caller has the same bounds, with the certificates that it trusts.
func TestClientOfTheCaller(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://evil.example/", http.StatusTemporaryRedirect)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	proxy := func(*http.Request) (*url.URL, error) { return nil, errors.New("a proxy is used") }
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, Proxy: proxy, DialContext: func(_ context.Context, _, _ string) (net.Conn, error) {
		return nil, errors.New("dialled without a check")
	}}
	host := strings.TrimPrefix(server.URL, "https://")
	cfg := Config{URL: "https://{headers.h}/", Hosts: []string{host}, Client: &http.Client{Transport: transport}}
	e := schemas.Envelope{Headers: amqp.Table{"h": host}}
	if err := post(cfg, e, retry.Attempt{}); err == nil || retry.TypeOf(err) != "address_not_allowed" {
		t.Errorf("got %v", err)
	}
	cfg.PrivateNetworks = thisMachine()
	var answered *StatusError
	if err := post(cfg, e, retry.Attempt{}); !errors.As(err, &answered) || answered.Status != 307 || answered.URL != server.URL {
		t.Errorf("a redirect: got %v", err)
	}
	for name, client := range map[string]*http.Client{
		"CheckRedirect":  {CheckRedirect: func(*http.Request, []*http.Request) error { return nil }},
		"RoundTripper":   {Transport: roundTrip(nil)},
		"DialTLSContext": {Transport: &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return nil, nil }}},
	} {
		cfg.Client = client
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), "client: expected ") {
			t.Errorf("%s: got %v", name, err)
		}
		if err := post(cfg, e, retry.Attempt{}); err == nil || meaningOf(err) != Unavailable || !strings.Contains(err.Error(), "client: expected ") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A receiver that a message chose cannot fill the memory by the header of its response.
func TestLongHeaderOfAReceiver(t *testing.T) {
	server := answering(t, 200, http.Header{"X-Long": {strings.Repeat("x", 2*longestHeader)}}, "")
	cfg := Config{URL: "{headers.url}", Hosts: []string{server.URL}, PrivateNetworks: thisMachine()}
	err := post(cfg, schemas.Envelope{Headers: amqp.Table{"url": server.URL}}, retry.Attempt{})
	if err == nil || !strings.Contains(err.Error(), "exceeded") {
		t.Errorf("got %v", err)
	}
}

// However many receivers there are, there are few connections that nothing uses.
func TestIdleConnectionsAreBounded(t *testing.T) {
	var open atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 {
			t.Errorf("%s, whose idle connections net/http does not bound", r.Proto)
		}
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	p := newPoster(Config{URL: "https://{headers.h}/", Hosts: []string{"*.example.com"}})
	transport := p.Client.Transport.(unfollowed).RoundTripper.(*http.Transport)
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	for i := range idleConnections + 50 {
		if err := p.post(schemas.NewContext(t.Context(), schemas.Envelope{Headers: amqp.Table{"h": fmt.Sprintf("h%d.example.com", i)}})); err != nil {
			t.Fatal(err)
		}
	}
	rabbittest.Eventually(t, "the idle connections to be closed", func() bool { return open.Load() <= idleConnections })
	if n := open.Load(); n < idleConnections/2 {
		t.Errorf("only %d connections are kept", n)
	}
}

func TestValidateTargets(t *testing.T) {
	for name, test := range map[string]struct {
		cfg  Config
		want string
	}{
		"fine":          {Config{URL: "https://{headers.h}/{type}", Method: "{headers.m}", Hosts: []string{"*"}, SetHeaders: map[string]string{"X-A": "{exchange}"}}, ""},
		"no hosts":      {Config{URL: "https://{headers.h}/"}, "hosts: expected the hosts"},
		"no hosts, URL": {Config{URL: "{headers.url}"}, "hosts: expected the hosts"},
		"idle hosts":    {Config{URL: "https://h/{type}", Hosts: []string{"h"}}, "expected none, as the host of the URL has no field"},
		"idle networks": {Config{URL: "https://h/{type}", PrivateNetworks: thisMachine()}, "expected none, as the host of the URL has no field"},
		"host":          {Config{URL: "{headers.url}", Hosts: []string{"a/b"}}, `host "a/b": expected a host such as`},
		"field":         {Config{URL: "https://h/secret/{id}"}, "found {id}: expected {headers.NAME}"},
		"method":        {Config{URL: "https://h/", Method: "GET"}, `method "GET": expected POST, PUT, PATCH, DELETE`},
		"method field":  {Config{URL: "https://h/", Method: "{verb}"}, `method "{verb}": expected`},
		"host header":   {Config{URL: "https://h/", SetHeaders: map[string]string{"Host": "a"}}, `header "Host": expected a header that is not`},
		"length":        {Config{URL: "https://h/", SetHeaders: map[string]string{"Content-Length": "1"}}, `header "Content-Length": expected a header that is not`},
		"signature":     {Config{URL: "https://h/", SetHeaders: map[string]string{"webhook-signature": "1"}}, `header "webhook-signature": expected a header that is not`},
		"ours":          {Config{URL: "https://h/", SetHeaders: map[string]string{"Watership-Attempt": "1"}}, `header "Watership-Attempt": expected a header that is not`},
		"header name":   {Config{URL: "https://h/", SetHeaders: map[string]string{"X A": "1"}}, `header "X A": expected the name of a header`},
		"header field":  {Config{URL: "https://h/", SetHeaders: map[string]string{"X-A": "secret {"}}, `value of header "X-A": expected fields such as`},
		"header value":  {Config{URL: "https://h/", SetHeaders: map[string]string{"X-A": "secret\n"}}, `value of header "X-A": expected text without line breaks`},
	} {
		err := test.cfg.Validate()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}
