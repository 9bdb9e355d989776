package server

import (
	"crypto/tls"
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
	h := s.settings.HTTP
	cfg := access.Config{Logger: s.Logger(), Recorder: s.audit, TLS: h.TLS.Cert != "", TrustedProxies: h.TrustedProxies, Needs: faces.API}
	if faces.Pages != nil {
		cfg.Stylesheet = faces.Pages.Stylesheet()
	}
	var err error
	if !h.URL.IsZero() {
		if cfg.URL, err = url.Parse(h.URL.Reveal()); err != nil {
			return nil, system.InputErrorf("http.url %s: %w", h.URL, err)
		}
	}
	if file := h.Auth.TokensFile; file != "" {
		cfg.Tokens = access.OpenTokenFile(file)
		if _, err := cfg.Tokens.List(); err != nil {
			return nil, system.InputError{Err: err}
		}
	}
	if cfg.SessionKeys, err = sessionKeys(h.Auth.SessionKeyFile); err != nil {
		return nil, err
	}
	if !h.Auth.OIDC.Issuer.IsZero() {
		if cfg.OIDC, err = oidcOf(h.Auth.OIDC); err != nil {
			return nil, err
		}
	}
	warnOfListener(s.Logger(), h)
	return access.New(cfg)
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
		provider.Roles = append(provider.Roles, access.Grant{Claim: g.Claim, Role: role, Bodies: g.Bodies, Queues: g.Queues, Exchanges: g.Exchanges})
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
