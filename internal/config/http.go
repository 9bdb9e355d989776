package config

import (
	"errors"
	"net"
	"net/url"
	"strings"
)

// httpKeys lists the keys of the HTTP server.
func httpKeys(c *Config) []Key {
	h := &c.HTTP
	return []Key{
		{Name: "http.listen", Help: "listen address of the HTTP server, with the console, the API, health checks and metrics, host:port (default: off)", read: scalar(listenAddress, &h.Listen)},
		{Name: "http.url", Help: "address at which browsers find the HTTP server, for http.auth.oidc and for links in alerts and in Kibana (default: alerts link to http.listen, if it is one address)", read: scalar(origin, &h.URL)},
		{Name: "http.trusted_proxies", Form: List, Help: "networks of proxies that name the client in X-Forwarded-For", read: scalars(network, &h.TrustedProxies)},
		{Name: "http.tls.cert", Help: "PEM file with the certificate of the HTTP server", read: scalar(path, &h.TLS.Cert)},
		{Name: "http.tls.key", Help: "PEM file with the key of http.tls.cert", read: scalar(path, &h.TLS.Key)},
		{Name: "http.tls.hsts", Default: "true", Help: "tell browsers to use nothing but https for the host, on all its ports, for a year", read: scalar(boolean, &h.TLS.HSTS)},
		{Name: "http.auth.tokens_file", Help: "file with the tokens of watership token (default: only programs of this machine may use the HTTP server)", read: scalar(path, &h.Auth.TokensFile)},
		{Name: "http.auth.session_key_file", Help: "file with the keys that encrypt the cookies of browsers, one per line (default: random)", read: scalar(path, &h.Auth.SessionKeyFile)},
		{Name: "http.auth.oidc.issuer", Help: "URL of the OpenID Connect provider", read: scalar(issuer, &h.Auth.OIDC.Issuer)},
		{Name: "http.auth.oidc.client_id", Help: "client id at the provider", read: scalar(boundedText(0, 1000), &h.Auth.OIDC.ClientID)},
		{Name: "http.auth.oidc.client_secret_file", Help: "file with the client secret (default: a public client)", read: scalar(path, &h.Auth.OIDC.ClientSecretFile)},
		{Name: "http.auth.oidc.ca", Help: "PEM file with the certificate authorities to trust for the provider (default: the system's)", read: scalar(path, &h.Auth.OIDC.CA)},
		{Name: "http.auth.oidc.scopes", Form: List, Default: "email", Help: "scopes to request besides openid", read: scalars(boundedText(1, 200), &h.Auth.OIDC.Scopes)},
		{Name: "http.auth.oidc.name_claim", Default: "email", Help: "claim with the name of a person", read: scalar(boundedText(1, 200), &h.Auth.OIDC.NameClaim)},
		{Name: "http.auth.oidc.roles_claim", Default: "groups", Help: "claim that gives roles, such as groups or realm_access.roles", read: scalar(boundedText(1, 200), &h.Auth.OIDC.RolesClaim)},
		{Name: "http.auth.oidc.roles", Form: Structure, Help: "roles by the values of this claim", read: structures(readRoleGrant, &h.Auth.OIDC.Roles)},
		{Name: "http.auth.oidc.bearer", Default: "false", Help: "accept ID tokens of the provider from programs", read: scalar(boolean, &h.Auth.OIDC.Bearer)},
	}
}

// Console returns the address at which browsers find the console: URL, or Listen without one. It is nil if
// neither is set, and if Listen is all addresses of the machine, or any port.
func (h HTTP) Console() *url.URL {
	if !h.URL.IsZero() {
		parsed, _ := url.Parse(h.URL.Reveal()) // the configuration was checked
		return parsed
	}
	host, port, err := net.SplitHostPort(h.Listen)
	if ip := net.ParseIP(host); err != nil || host == "" || ip != nil && ip.IsUnspecified() || port == "0" {
		return nil
	}
	if h.TLS.Cert != "" {
		return &url.URL{Scheme: "https", Host: h.Listen}
	}
	return &url.URL{Scheme: "http", Host: h.Listen}
}

func readRoleGrant(l *loader, path string, n node) RoleGrant {
	var g RoleGrant
	l.readFields(path, n,
		structureField{name: "claim", read: scalar(boundedText(1, 1000), &g.Claim)},
		structureField{name: "role", read: scalar(oneOf("viewer", "operator", "admin"), &g.Role)},
		structureField{name: "bodies", fallback: "false", read: scalar(boolean, &g.Bodies)},
		structureField{name: "body_reasons", fallback: "false", read: scalar(boolean, &g.BodyReasons)},
		structureField{name: "originals", fallback: "false", read: scalar(boolean, &g.Originals)},
		structureField{name: "queues", read: scalars(boundedText(1, shortString), &g.Queues)},
		structureField{name: "exchanges", read: scalars(boundedText(0, shortString), &g.Exchanges)},
	)
	return g
}

// origin parses the address of a server, without a path.
func origin(s string) (URL, error) {
	if s == "" {
		return URL{}, nil
	}
	u, err := address("https", "http")(strings.TrimSuffix(s, "/"))
	if err != nil || strings.ContainsAny(strings.TrimPrefix(strings.TrimPrefix(u.Reveal(), "https://"), "http://"), "/?@") {
		return URL{}, errors.New("expected a URL such as https://watership.example, without a path")
	}
	return u, nil
}

// kibanaAddress parses the address of Kibana in a browser, which may have the path of a
// space or of a proxy.
func kibanaAddress(s string) (URL, error) {
	if s == "" {
		return URL{}, nil
	}
	u, err := address("https", "http")(strings.TrimSuffix(s, "/"))
	if err != nil || strings.ContainsAny(u.Reveal(), "?@") {
		return URL{}, errors.New("expected a URL such as https://kibana.example, without a login")
	}
	return u, nil
}

// apiAddress parses the address of a server whose API commands use. Its login is a token
// in a file.
func apiAddress(s string) (URL, error) {
	const expected = "expected a URL such as https://watership.example, without a user, since the token is in token_file"
	if s == "" {
		return URL{}, nil
	}
	parsed, err := url.Parse(s)
	if err != nil || parsed.User != nil || parsed.RawQuery != "" || parsed.ForceQuery {
		return URL{}, errors.New(expected)
	}
	if _, err := address("https", "http")(s); err != nil {
		return URL{}, errors.New(expected)
	}
	return NewURL(strings.TrimSuffix(s, "/")), nil
}

// issuer parses the URL of an OpenID Connect provider. Its keys decide who is an
// administrator, so they come by TLS or from this machine.
func issuer(s string) (URL, error) {
	u, err := address("https", "http")(s)
	if err != nil {
		return URL{}, err
	}
	parsed, err := url.Parse(s)
	if err != nil || parsed.Scheme == "http" && parsed.Hostname() != "localhost" && !net.ParseIP(parsed.Hostname()).IsLoopback() {
		return URL{}, errors.New("expected a URL with https, or http on this machine")
	}
	return u, nil
}

// checkHTTP refuses settings of the HTTP server that have no effect, or not the one that
// they seem to have.
func (k checker) checkHTTP(h HTTP) {
	const pair = "http.tls.cert and http.tls.key, or neither"
	k.rejectIf("http.tls.cert", h.TLS.Cert != "" && h.TLS.Key == "", pair)
	k.rejectIf("http.tls.key", h.TLS.Key != "" && h.TLS.Cert == "", pair)
	oidc := h.Auth.OIDC
	if oidc.Issuer.IsZero() {
		const noIssuer = "nothing without http.auth.oidc.issuer"
		k.rejectIf("http.auth.oidc.client_id", oidc.ClientID != "", noIssuer)
		k.rejectIf("http.auth.oidc.roles", len(oidc.Roles) > 0, noIssuer)
		return
	}
	k.rejectIf("http.auth.oidc.client_id", oidc.ClientID == "", "the id of Watership at the provider, if http.auth.oidc.issuer is set")
	k.rejectIf("http.url", h.URL.IsZero(), "the address at which browsers find the server, if http.auth.oidc.issuer is set")
	k.rejectIf("http.auth.oidc.roles", len(oidc.Roles) == 0, "a role for at least one value of the claim, if http.auth.oidc.issuer is set")
	for i, grant := range oidc.Roles {
		at := element("http.auth.oidc.roles", i)
		k.rejectIf(at+".claim", grant.Claim == "", "a value of the claim http.auth.oidc.roles_claim")
		k.rejectIf(at+".role", grant.Role == "", "viewer, operator or admin")
		k.rejectIf(at+".body_reasons", grant.BodyReasons && !grant.Bodies, "bodies: true beside it")
	}
}
