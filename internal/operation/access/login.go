package access

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"

	"golang.org/x/oauth2"
)

// Paths of signing in and out.
const (
	pathSignIn    = "/auth/"
	pathLogin     = "/auth/login"
	pathCallback  = "/auth/callback"
	pathToken     = "/auth/token"
	pathLogout    = "/auth/logout"
	pathLoggedOut = "/auth/logged-out"
	pathReason    = "/auth/reason"
)

// answer is the response to a request that signs in or out, after it is recorded.
type answer struct {
	by      Identity
	respond func(http.ResponseWriter) error
}

// signInHandlers are the handlers of signing in and out of a Guard.
type signInHandlers struct{ guard *Guard }

// routes returns the handlers.
func (s signInHandlers) routes() *http.ServeMux {
	routes := http.NewServeMux()
	if s.guard.provider != nil {
		routes.HandleFunc("GET "+pathLogin, s.login)
		routes.HandleFunc("GET "+pathCallback, s.recorded("sign in", s.callback))
	}
	if s.guard.tokens != nil {
		routes.HandleFunc("POST "+pathToken, s.recorded("sign in", s.enterToken))
	}
	routes.HandleFunc("POST "+pathReason, s.giveReason)
	routes.HandleFunc("POST "+pathLogout, s.recorded("sign out", s.logout))
	routes.HandleFunc("GET "+pathLoggedOut, func(w http.ResponseWriter, _ *http.Request) {
		writePage(w, problem{Title: "Signed out", Status: http.StatusOK, Detail: "The session has ended."}, s.guard.signInPage("/"))
	})
	return routes
}

// recorded records the actions and refusals of a handler, and responds after that. Refusals
// count as failed attempts, and successes as requests of the identity: beyond the limits
// neither is recorded.
func (s signInHandlers) recorded(action string, handler func(*http.Request) (answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		done, err := handler(r)
		done.by.Address = clientAddress(r, s.guard.trusted)
		if limit := s.limit(done.by, err); limit != nil {
			s.guard.refuse(w, r, limit)
			return
		}
		if err := s.guard.record(r.Context(), Record{Identity: done.by, Action: Action{Name: action}, Status: statusFor(err), Problem: problemOf(err)}); err != nil {
			s.guard.refuse(w, r, errUnrecorded(err))
			return
		}
		if err == nil {
			err = done.respond(w)
		}
		if err != nil {
			s.guard.refuse(w, r, err)
		}
	}
}

// limit counts a request that signs in or out. One that signs out without
// a session needs no credentials and is recorded, so it counts as one that fails.
func (s signInHandlers) limit(by Identity, err error) error {
	if err != nil || by.Name == "" {
		return s.guard.limitAttempts(by.Address)
	}
	return s.guard.limitRequests(by)
}

// login sends a browser to the provider.
func (s signInHandlers) login(w http.ResponseWriter, r *http.Request) {
	address := clientAddress(r, s.guard.trusted)
	if err := s.guard.peekAttempts(address); err != nil {
		s.guard.refuse(w, r, err)
		return
	}
	begun := signIn{
		State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		Return: localPath(r.URL.Query().Get("return")), Expires: time.Now().Add(loginLength),
	}
	to, err := s.guard.provider.url(r.Context(), begun)
	if err == nil {
		err = s.guard.sessions.setCookie(w, loginPurpose, begun, loginLength)
	}
	if err != nil {
		if limit := s.guard.limitAttempts(address); limit != nil {
			err = limit
		}
		s.guard.refuse(w, r, err)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// callback finishes a sign-in when the provider sends the browser back. The state in the
// cookie proves that this browser has begun it.
func (s signInHandlers) callback(r *http.Request) (answer, error) {
	if err := s.guard.peekAttempts(clientAddress(r, s.guard.trusted)); err != nil {
		return answer{}, err
	}
	query := r.URL.Query()
	var begun signIn
	cookie, err := r.Cookie(s.guard.sessions.cookieName(loginPurpose))
	if err == nil {
		err = s.guard.sessions.sealer.open(loginPurpose, cookie.Value, &begun)
	}
	if err != nil || !time.Now().Before(begun.Expires) || subtle.ConstantTimeCompare([]byte(begun.State), []byte(query.Get("state"))) != 1 {
		return answer{}, &Error{Code: code.Unauthenticated, Problem: "this browser has not begun the sign-in, or too long ago: sign in again", Cause: err}
	}
	if issuer := query.Get("iss"); issuer != "" && issuer != s.guard.provider.Issuer { // RFC 9207
		return answer{}, &Error{Code: code.Unauthenticated, Problem: "another OpenID provider has answered: sign in again"}
	}
	if query.Get("error") != "" {
		return answer{}, &Error{Code: code.Unauthenticated, Problem: "the OpenID provider refused the sign-in: " + shortened(query.Get("error")+" "+query.Get("error_description"))}
	}
	c, err := s.guard.provider.finish(r.Context(), begun, query.Get("code"))
	if err != nil {
		return answer{}, err
	}
	name, claim, err := s.guard.provider.identify(c)
	by := Identity{Name: name, Method: ByOIDC}
	if err != nil {
		return answer{by: by}, err
	}
	return answer{by, func(w http.ResponseWriter) error {
		s.guard.sessions.removeCookie(w, loginPurpose)
		return s.begin(w, session{Name: name, Claim: claim}, begun.Return)
	}}, nil
}

// enterToken signs in with a token that a user enters in a browser.
func (s signInHandlers) enterToken(r *http.Request) (answer, error) {
	if err := r.ParseForm(); err != nil {
		return answer{}, &Error{Code: code.InvalidRequest, Problem: "the form cannot be read", Cause: err}
	}
	token, err := s.guard.findToken(strings.TrimSpace(r.PostForm.Get("token")))
	if err != nil {
		return answer{}, err
	}
	return answer{token.identity(), func(w http.ResponseWriter) error {
		return s.begin(w, session{Token: token.Hash}, localPath(r.PostForm.Get("return")))
	}}, nil
}

// logout ends the session of a browser. The provider's own session goes on.
func (s signInHandlers) logout(r *http.Request) (answer, error) {
	now := time.Now()
	ending, found, err := s.guard.sessions.read(r, now)
	if err != nil || !found {
		return answer{respond: func(w http.ResponseWriter) error { return s.signedOut(w) }}, nil
	}
	by, _ := s.guard.sessionIdentity(ending)
	return answer{by, func(w http.ResponseWriter) error {
		s.guard.sessions.end(ending, now)
		return s.signedOut(w)
	}}, nil
}

func (s signInHandlers) signedOut(w http.ResponseWriter) error {
	s.guard.sessions.removeCookie(w, sessionPurpose)
	s.guard.sessions.removeCookie(w, reasonPurpose)
	return redirect(w, pathLoggedOut)
}

func (s signInHandlers) begin(w http.ResponseWriter, begun session, to string) error {
	if err := s.guard.sessions.start(w, begun, time.Now()); err != nil {
		return err
	}
	return redirect(w, to)
}

func redirect(w http.ResponseWriter, to string) error {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// localPath returns a path of this server, and / for any other URL: a link to the sign-in
// must not lead to another site afterwards.
func localPath(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Opaque != "" || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(u.Path, "//") || strings.ContainsAny(to, "\\\r\n\t") || strings.HasPrefix(u.Path, pathSignIn) {
		return "/"
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).String()
}

const maxProviderText = 200

// shortened bounds the text of another server.
func shortened(text string) string {
	text = strings.ToValidUTF8(strings.TrimSpace(text), "?")
	if runes := []rune(text); len(runes) > maxProviderText {
		return string(runes[:maxProviderText]) + "…"
	}
	return text
}
