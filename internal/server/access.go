package server

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit/tlsfiles"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/secret"
)

// newGuard makes the guard of http.listen.
func (s *Server) newGuard(faces Faces) (*access.Guard, error) {
	cfg, err := guardConfig(s.settings.HTTP)
	if err != nil {
		return nil, err
	}
	cfg.Logger, cfg.Recorder, cfg.Needs = s.Logger(), s.audit, faces.API
	if faces.API != nil {
		cfg.Queries = faces.API.Queries()
	}
	if faces.Pages != nil {
		cfg.Stylesheet = faces.Pages.Stylesheet()
		cfg.Queries = append(cfg.Queries, faces.Pages.Queries()...)
	}
	warnOfListener(s.Logger(), s.settings.HTTP)
	return access.New(cfg)
}

// guardConfig returns the settings of the guard, and every mistake in them as an InputError.
func guardConfig(h config.HTTP) (access.Config, error) {
	cfg := access.Config{TLS: h.TLS.Cert != "", TrustedProxies: h.TrustedProxies}
	var address, tokens, keys, provider error
	if !h.URL.IsZero() {
		if cfg.URL, address = url.Parse(h.URL.Reveal()); address != nil {
			address = system.InputErrorf("http.url %s: %w", h.URL, address)
		}
	}
	if file := h.Auth.TokensFile; file != "" {
		cfg.Tokens = access.OpenTokenFile(file)
		if _, tokens = cfg.Tokens.List(); tokens != nil {
			tokens = system.InputError{Err: tokens}
		}
	}
	cfg.SessionKeys, keys = sessionKeys(h.Auth.SessionKeyFile)
	if !h.Auth.OIDC.Issuer.IsZero() {
		cfg.OIDC, provider = oidcOf(h.Auth.OIDC)
	}
	return cfg, errors.Join(address, tokens, keys, provider)
}

// warnOfListener logs what an operator should know about who can use http.listen.
func warnOfListener(logger *slog.Logger, h config.HTTP) {
	if h.Listen == "" || isLoopback(h.Listen) {
		return
	}
	switch secure := h.TLS.Cert != ""; {
	case h.Auth.TokensFile == "" && h.Auth.OIDC.Issuer.IsZero():
		logger.Info("other machines can read health checks and metrics only: for the API and the console configure http.auth", "http.listen", h.Listen)
	case !secure && len(h.TrustedProxies) == 0:
		logger.Warn("credentials can be read in the network: configure http.tls, or a proxy with TLS and http.trusted_proxies", "http.listen", h.Listen)
	}
}

func isLoopback(listen string) bool {
	host, _, _ := net.SplitHostPort(listen)
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

func sessionKeys(file string) ([][]byte, error) {
	const key = "http.auth.session_key_file"
	text, err := secret.Content(key, file)
	if err != nil {
		return nil, system.InputError{Err: err}
	}
	if file == "" {
		return nil, nil
	}
	keys, err := access.ParseSessionKeys(text)
	if err != nil {
		return nil, system.InputErrorf("%s: %s: %w", key, file, err)
	}
	return keys, nil
}

// oidcOf returns the provider of the configuration. It sends no request.
func oidcOf(o config.OIDC) (*access.OIDC, error) {
	clientSecret, err := secret.Text("http.auth.oidc.client_secret_file", o.ClientSecretFile)
	if err != nil {
		return nil, system.InputError{Err: err}
	}
	provider := &access.OIDC{
		Issuer: o.Issuer.Reveal(), ClientID: o.ClientID, ClientSecret: clientSecret, Scopes: o.Scopes,
		NameClaim: o.NameClaim, RolesClaim: o.RolesClaim, Bearer: o.Bearer,
	}
	for _, g := range o.Roles {
		role, err := access.ParseRole(g.Role)
		if err != nil {
			return nil, system.InputErrorf("http.auth.oidc.roles: %w", err)
		}
		provider.Roles = append(provider.Roles, access.Grant{
			Claim: g.Claim, Role: role, Bodies: g.Bodies, BodyReasons: g.BodyReasons, Originals: g.Originals, Queues: g.Queues, Exchanges: g.Exchanges,
		})
	}
	if o.CA == "" {
		return provider, nil
	}
	trust, err := tlsfiles.Load(tlsfiles.File{Setting: "http.auth.oidc.ca", Path: o.CA}, tlsfiles.File{}, tlsfiles.File{})
	if err != nil {
		return nil, system.InputError{Err: err}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = trust
	provider.Client = &http.Client{Transport: transport}
	return provider, nil
}

// serverTLS returns the TLS configuration of http.listen; nil without a certificate.
func serverTLS(files config.ServerTLS, logger *slog.Logger) (*tls.Config, error) {
	if files.Cert == "" {
		return nil, nil
	}
	conf, err := tlsfiles.NewServer(
		tlsfiles.File{Setting: "http.tls.cert", Path: files.Cert}, tlsfiles.File{Setting: "http.tls.key", Path: files.Key},
		func(err error) {
			logger.Error("the new certificate of http.listen cannot be used; the former one stays", "error", err)
		},
	)
	if err != nil {
		return nil, system.InputError{Err: err}
	}
	return conf, nil
}
