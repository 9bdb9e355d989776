package access

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"
)

func (g *Guard) errNoCredentials() error {
	text := "the request has no credentials: send the header Authorization: Bearer with a token of watership token create"
	if g.provider != nil {
		text += ", or sign in at " + pathLogin
	}
	return &Error{Code: code.Unauthenticated, Problem: text, missing: true}
}

// identify returns the identity that a request proves. A header counts before a cookie.
func (g *Guard) identify(r *http.Request) (Identity, error) {
	if !g.authenticates() {
		return Identity{Name: "local", Method: ByLoopback, Role: Admin, Bodies: true, Originals: true}, nil
	}
	if values := r.Header.Values("Authorization"); len(values) > 0 {
		return g.identifyHeader(r, values)
	}
	found, has, err := g.sessions.read(r, time.Now())
	switch {
	case !has:
		return Identity{}, g.errNoCredentials()
	case err != nil: // as after a restart: no attempt to sign in, since the key cannot be guessed
		return Identity{}, &Error{Code: code.Unauthenticated, Problem: err.Error(), missing: true}
	}
	return g.sessionIdentity(found)
}

// identifyHeader returns the identity of a bearer token.
func (g *Guard) identifyHeader(r *http.Request, values []string) (Identity, error) {
	scheme, secret, _ := strings.Cut(values[0], " ")
	secret = strings.TrimSpace(secret)
	if len(values) != 1 || !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return Identity{}, &Error{Code: code.Unauthenticated, Problem: "expected one header Authorization: Bearer TOKEN"}
	}
	if g.provider != nil && g.provider.Bearer && !strings.HasPrefix(secret, tokenPrefix) {
		return g.identifyIDToken(r, secret)
	}
	token, err := g.findToken(secret)
	return token.identity(), err
}

// identifyIDToken returns the identity of an ID token. Attempts that fail are limited before
// the token is verified, since an unknown key makes the server ask the provider.
func (g *Guard) identifyIDToken(r *http.Request, raw string) (Identity, error) {
	if err := g.peekAttempts(clientAddress(r, g.trusted)); err != nil {
		return Identity{}, err
	}
	c, err := g.provider.bearer(r.Context(), raw)
	if err != nil {
		return Identity{}, err
	}
	name, claim, err := g.provider.identify(c)
	if err != nil {
		return Identity{Name: name, Method: ByOIDC}, err
	}
	return g.provider.identity(name, claim)
}

// sessionIdentity returns the identity of a session, with the permissions that it has now.
func (g *Guard) sessionIdentity(s session) (Identity, error) {
	if len(s.Token) != sha256.Size {
		if g.provider == nil {
			return Identity{}, &Error{Code: code.Unauthenticated, Problem: "the session is of a provider that is no longer configured: sign in again"}
		}
		return g.provider.identity(s.Name, s.Claim)
	}
	if g.tokens == nil {
		return Identity{}, &Error{Code: code.Unauthenticated, Problem: "tokens are no longer configured: sign in again"}
	}
	token, err := g.tokens.findHash([sha256.Size]byte(s.Token), time.Now())
	return token.identity(), tokenRefusal(err)
}

// findToken returns the token with a secret.
func (g *Guard) findToken(secret string) (Token, error) {
	if g.tokens == nil {
		return Token{}, &Error{Code: code.Unauthenticated, Problem: "this server takes no tokens: http.auth.tokens_file is not configured"}
	}
	token, err := g.tokens.find(secret, time.Now())
	return token, tokenRefusal(err)
}

// tokenRefusal returns the refusal for an error of the file of tokens.
func tokenRefusal(err error) error {
	var unreadable *tokenFileError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unreadable):
		return &Error{Code: code.Unavailable, Problem: "the server cannot read its tokens: see its log", Cause: err}
	}
	return &Error{Code: code.Unauthenticated, Problem: err.Error(), Remedy: "Ask an administrator for another token, which watership token create makes."}
}
