package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// OIDC configures the sign-in with an OpenID Connect provider.
type OIDC struct {
	Issuer       string
	ClientID     string
	ClientSecret string // empty: a public client, which PKCE protects alone
	Scopes       []string
	NameClaim    string // name of the person in audit events; sub if the token has no such claim
	RolesClaim   string // such as groups, or realm_access.roles
	Roles        []Grant
	Bearer       bool         // programs may send ID tokens
	Client       *http.Client // for requests to the provider; nil: http.DefaultClient
}

// Grant gives a role to the identities that have a value in the claim of roles.
type Grant struct {
	Claim             string
	Role              Role
	Bodies            bool
	BodyReasons       bool
	Originals         bool
	Queues, Exchanges []string
}

// provider is the OpenID Connect provider. It is asked when a user signs in: the server
// starts, and tokens work, while the provider is unavailable.
type provider struct {
	OIDC
	redirect string // URL to which it sends browsers back

	mu         sync.Mutex // of the fields below; held during the request
	discovered *oidc.Provider
	failed     time.Time
	err        error
}

const (
	providerTimeout = 10 * time.Second
	providerRetry   = 5 * time.Second // between two requests to a provider that does not answer
)

// discover returns the endpoints and keys of the provider.
func (p *provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.discovered != nil {
		return p.discovered, nil
	}
	if p.err != nil && time.Since(p.failed) < providerRetry {
		return nil, p.err
	}
	// The provider keeps the context for later requests for its keys.
	found, err := oidc.NewProvider(p.context(context.WithoutCancel(ctx)), p.Issuer)
	if err != nil {
		p.failed = time.Now()
		p.err = &Error{Code: code.Unavailable, Problem: "the OpenID provider is unavailable: try again, or use a token", Cause: fmt.Errorf("http.auth.oidc.issuer %s: %w", p.Issuer, err)}
		return nil, p.err
	}
	p.discovered, p.err = found, nil
	return found, nil
}

// context returns a context with the client for requests to the provider.
func (p *provider) context(ctx context.Context) context.Context {
	client := http.Client{}
	if p.Client != nil {
		client = *p.Client
	}
	client.Timeout = providerTimeout
	client.Transport = boundedTransport{client.Transport}
	client.CheckRedirect = refuseRedirect
	return oidc.ClientContext(ctx, &client)
}

func (p *provider) oauth(found *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: found.Endpoint(), RedirectURL: p.redirect,
		Scopes: append([]string{oidc.ScopeOpenID}, p.Scopes...),
	}
}

// signIn is a sign-in that has begun: the content of the cookie that belongs to it.
type signIn struct {
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	Return   string    `json:"return"`
	Expires  time.Time `json:"expires"`
}

// url returns the page of the provider for a sign-in.
func (p *provider) url(ctx context.Context, s signIn) (string, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	return p.oauth(found).AuthCodeURL(s.State, oidc.Nonce(s.Nonce), oauth2.S256ChallengeOption(s.Verifier)), nil
}

// finish exchanges the grant of a sign-in, its code, for an ID token, and returns its claims.
func (p *provider) finish(ctx context.Context, s signIn, grant string) (claims, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	ctx = p.context(ctx)
	token, err := p.oauth(found).Exchange(ctx, grant, oauth2.VerifierOption(s.Verifier))
	if err != nil {
		return nil, &Error{Code: code.Unauthenticated, Problem: "the OpenID provider did not accept the sign-in: try again", Cause: err}
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return nil, &Error{Code: code.Unauthenticated, Problem: "the OpenID provider sent no ID token"}
	}
	verified, c, err := p.verify(ctx, found, raw)
	if err != nil {
		return nil, err
	}
	if verified.Nonce != s.Nonce {
		return nil, &Error{Code: code.Unauthenticated, Problem: "the ID token is of another sign-in: try again"}
	}
	return c, p.addUserInfo(ctx, found, c, oauth2.StaticTokenSource(token))
}

// addUserInfo adds the claims that a provider gives only at its endpoint for them. Claims of
// the ID token, which is signed, stay.
func (p *provider) addUserInfo(ctx context.Context, found *oidc.Provider, c claims, token oauth2.TokenSource) error {
	verifies := p.NameClaim != emailClaim || c["email_verified"] != nil
	if found.UserInfoEndpoint() == "" || c[p.NameClaim] != nil && c.texts(p.RolesClaim) != nil && verifies {
		return nil
	}
	info, err := found.UserInfo(ctx, token)
	if err != nil {
		return &Error{Code: code.Unauthenticated, Problem: "the OpenID provider does not tell who signs in: try again", Cause: err}
	}
	var more claims
	if err := info.Claims(&more); err != nil || info.Subject != c["sub"] {
		return &Error{Code: code.Unauthenticated, Problem: "the OpenID provider tells about somebody else: try again", Cause: err}
	}
	for name, value := range more {
		if _, has := c[name]; !has {
			c[name] = value
		}
	}
	return nil
}

// bearer returns the claims of an ID token that a program sent.
func (p *provider) bearer(ctx context.Context, raw string) (claims, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	_, c, err := p.verify(p.context(ctx), found, raw)
	return c, err
}

func (p *provider) verify(ctx context.Context, found *oidc.Provider, raw string) (*oidc.IDToken, claims, error) {
	token, err := found.Verifier(&oidc.Config{ClientID: p.ClientID}).Verify(ctx, raw)
	var expired *oidc.TokenExpiredError
	switch {
	case errors.As(err, &expired):
		return nil, nil, &Error{Code: code.Unauthenticated, Problem: "the ID token has expired: request another", Cause: err}
	case err != nil:
		return nil, nil, &Error{Code: code.Unauthenticated, Problem: "the ID token is invalid: it must be signed by " + p.Issuer + " for " + p.ClientID, Cause: err}
	}
	var c claims
	if err := token.Claims(&c); err != nil {
		return nil, nil, &Error{Code: code.Unauthenticated, Problem: "the claims of the ID token cannot be read", Cause: err}
	}
	if !c.areOf(p.ClientID) {
		return nil, nil, &Error{Code: code.Unauthenticated, Problem: "the ID token was issued to another client: its claim azp must be " + p.ClientID}
	}
	return token, c, nil
}

// identify returns the name of an identity and the value that grants it a role.
func (p *provider) identify(c claims) (name, claim string, err error) {
	name = c.name(p.NameClaim)
	values := c.texts(p.RolesClaim)
	for _, grant := range p.Roles { // the first in the configuration decides
		if slices.Contains(values, grant.Claim) {
			return name, grant.Claim, nil
		}
	}
	return name, "", &Error{Code: code.Forbidden, Problem: fmt.Sprintf("%s has no role here: http.auth.oidc.roles grants none to the values of its claim %s", name, p.RolesClaim)}
}

// identity returns the identity that a value of the claim grants.
func (p *provider) identity(name, claim string) (Identity, error) {
	at := slices.IndexFunc(p.Roles, func(g Grant) bool { return g.Claim == claim })
	if at < 0 {
		return Identity{}, &Error{Code: code.Forbidden, Problem: name + " has no role here any more: sign in again"}
	}
	g := p.Roles[at]
	return Identity{
		Name: name, Method: ByOIDC, Role: g.Role, Bodies: g.Bodies, BodyReasons: g.BodyReasons, Originals: g.Originals,
		Queues: g.Queues, Exchanges: g.Exchanges,
	}, nil
}

// claims are the claims of an ID token.
type claims map[string]any

// areOf reports whether the token was issued to a client, as OpenID Connect Core 1.0, section
// 3.1.3.7, has it: the claim azp is the client, and several audiences have one. Another client
// of the provider could otherwise sign in here with the tokens that it gets of its users.
func (c claims) areOf(client string) bool {
	party, told := c["azp"]
	if audiences, _ := c["aud"].([]any); !told && len(audiences) < 2 {
		return true
	}
	return party == client
}

const emailClaim = "email"

// name returns the name of a person. An e-mail address does not count if the provider says
// anything but true of whether it has verified it: elsewhere anybody may enter the address of another person.
func (c claims) name(claim string) string {
	subject, _ := c["sub"].(string)
	name, _ := c[claim].(string)
	if verified, told := c["email_verified"]; name == "" || claim == emailClaim && told && verified != true {
		return subject
	}
	return name
}

// texts returns the values of a claim, whose path may have dots.
func (c claims) texts(path string) []string {
	var value any = map[string]any(c)
	if direct, found := c[path]; found {
		value = direct
	} else {
		for part := range strings.SplitSeq(path, ".") {
			object, _ := value.(map[string]any)
			value = object[part]
		}
	}
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		var texts []string
		for _, element := range v {
			if text, ok := element.(string); ok {
				texts = append(texts, text)
			}
		}
		return texts
	}
	return nil
}
