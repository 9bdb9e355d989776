package access

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"

	"golang.org/x/time/rate"
)

// Config configures a Guard. Without Tokens and OIDC, only programs of this machine may use
// the server, and may do everything.
type Config struct {
	Logger   *slog.Logger
	Recorder Recorder

	Tokens *TokenFile // nil: none
	OIDC   *OIDC      // nil: none

	// URL is the address at which browsers find the server; nil if only programs use it.
	// OIDC needs it.
	URL *url.URL

	// TLS is whether the server itself has a certificate.
	TLS bool

	// SessionKeys encrypt the cookies of sessions; the first seals, and all open. None: a
	// random key, so that sessions end with the process.
	SessionKeys [][]byte

	// TrustedProxies are networks of proxies whose X-Forwarded-For is the client's address.
	TrustedProxies []netip.Prefix

	// Stylesheet is the URL of the style of the pages of refusals and of the sign-in; "":
	// none. It must need no permission.
	Stylesheet string

	// Queries are patterns, as of http.ServeMux, of requests that change nothing although
	// their method may, such as searches with POST. Viewers may send them.
	Queries []string

	// Needs reports which requests need more than Operator, for the text of a refusal. nil: none.
	Needs Needs
}

// Needs returns the role that a request needs.
type Needs interface {
	Role(r *http.Request) Role
}

// Guard authenticates requests, refuses those that are not allowed, and records actions.
type Guard struct {
	logger   *slog.Logger
	recorder Recorder
	tokens   *TokenFile
	provider *provider
	sessions *sessions
	public   *url.URL
	trusted  []netip.Prefix
	queries  *http.ServeMux
	needs    Needs
	signIn   *http.ServeMux
	style    string // URL of the style of its pages

	crossOrigin *http.CrossOriginProtection

	attempts *limiters    // sign-ins and credentials that fail, by address
	requests *limiters    // by identity
	running  *concurrency // by identity
	refusals *limiters    // records of refusals
}

// Limits of requests.
const (
	attemptRate, attemptBurst = rate.Limit(0.5), 30
	requestRate, requestBurst = rate.Limit(50), 200
	refusalRate, refusalBurst = rate.Limit(2), 100
	maxRunning                = 8  // of one identity
	maxRunningAll             = 32 // the connections that remain are for health checks and metrics
)

// New makes a Guard.
func New(cfg Config) (*Guard, error) {
	sealer, err := newSealer(cfg.SessionKeys)
	if err != nil {
		return nil, err
	}
	secure := cfg.TLS || cfg.URL != nil && cfg.URL.Scheme == "https"
	g := &Guard{
		logger: cfg.Logger, recorder: cfg.Recorder, tokens: cfg.Tokens, public: cfg.URL, style: cfg.Stylesheet, trusted: cfg.TrustedProxies,
		sessions: &sessions{sealer: sealer, secure: secure, ended: map[string]time.Time{}},
		queries:  http.NewServeMux(), needs: cfg.Needs,
		attempts: newLimiters(attemptRate, attemptBurst), requests: newLimiters(requestRate, requestBurst),
		refusals: newLimiters(refusalRate, refusalBurst),
		running:  &concurrency{each: maxRunning, all: maxRunningAll, running: map[string]int{}},
	}
	if cfg.OIDC != nil {
		if cfg.URL == nil {
			return nil, errors.New("http.auth.oidc needs http.url, the address to which the provider sends browsers back")
		}
		g.provider = &provider{OIDC: *cfg.OIDC, redirect: cfg.URL.JoinPath(pathCallback).String()}
	}
	if g.crossOrigin, err = newCrossOriginProtection(cfg.URL); err != nil {
		return nil, err
	}
	for _, pattern := range append([]string{"POST " + pathReason}, cfg.Queries...) {
		g.queries.HandleFunc(pattern, http.NotFound)
	}
	g.signIn = signInHandlers{g}.routes()
	return g, nil
}

// authenticates reports whether requests need credentials.
func (g *Guard) authenticates() bool { return g.tokens != nil || g.provider != nil }

// Handler returns a handler that passes on the requests that are allowed. The context of
// such a request has its Identity, and ends when the identity loses its permission. All
// other methods than GET, HEAD and OPTIONS need the role Operator and are recorded; what
// needs more is for next to decide.
//
// A response must be written within a minute. A handler of a stream sets further
// deadlines with http.ResponseController.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		SetHeaders(w.Header())
		w.Header().Set("Cache-Control", "no-store")
		setDeadlines(w)
		if g.authenticates() && strings.HasPrefix(r.URL.Path, pathSignIn) {
			r.Body = http.MaxBytesReader(w, r.Body, maxSignIn)
			g.serveSignIn(w, r)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		g.serve(w, r, next)
	})
}

// Bounds of a request, for clients that send or read slowly.
const (
	maxSignIn    = 1 << 20  // bytes
	maxBody      = 32 << 20 // bytes, of what next may limit further
	readTimeout  = 15 * time.Second
	writeTimeout = time.Minute
)

// setDeadlines replaces the deadlines of the server. A recorder of tests has none.
func setDeadlines(w http.ResponseWriter) {
	deadlines, now := http.NewResponseController(w), time.Now()
	_ = deadlines.SetReadDeadline(now.Add(readTimeout))
	_ = deadlines.SetWriteDeadline(now.Add(writeTimeout))
}

// SetHeaders sets the headers with which browsers run no script of another origin, show
// the response in no frame, and do not guess its type.
func SetHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "+
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// serveSignIn serves the requests of signing in and out, which need no identity.
func (g *Guard) serveSignIn(w http.ResponseWriter, r *http.Request) {
	if err := g.checkSite(r); err != nil {
		g.refuse(w, r, err)
		return
	}
	g.signIn.ServeHTTP(w, r)
}

// limitAttempts counts a failed attempt to sign in.
func (g *Guard) limitAttempts(address netip.Addr) error {
	if wait := g.attempts.wait(addressKey(address), time.Now()); wait > 0 {
		return tooManyAttempts(wait)
	}
	return nil
}

// peekAttempts refuses what takes the provider's time while an address has failed too often.
func (g *Guard) peekAttempts(address netip.Addr) error {
	if wait := g.attempts.peek(addressKey(address), time.Now()); wait > 0 {
		return tooManyAttempts(wait)
	}
	return nil
}

func tooManyAttempts(wait time.Duration) error {
	return &Error{Code: code.RateLimited, Problem: "too many attempts to sign in from this address: wait", After: wait}
}

// countFailure counts credentials that are wrong as an attempt to sign in. Right ones pass
// in any case: 256 bits cannot be guessed, and a client that fails must not lock out others
// with the same address.
func (g *Guard) countFailure(address netip.Addr, err error) error {
	if statusOf(err) != http.StatusUnauthorized || isMissing(err) {
		return err
	}
	if limit := g.limitAttempts(address); limit != nil {
		return limit
	}
	return err
}

// serve passes a request on, unless it is refused.
func (g *Guard) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	who, err := g.admit(r)
	who.Address = clientAddress(r, g.trusted)
	if err != nil {
		err = g.countFailure(who.Address, err)
		g.recordRefusal(r, who, err)
		g.refuse(w, r, err)
		return
	}
	if err := g.limitRequests(who); err != nil {
		g.refuse(w, r, err)
		return
	}
	key := requestKey(who)
	if !g.running.start(key) {
		g.refuse(w, r, &Error{Code: code.RateLimited, Problem: "too many requests of " + who.Name + " at a time: wait for others to end", After: time.Second})
		return
	}
	defer g.running.end(key)
	a := &audit{recorder: g.recorder, record: g.record, reason: reasonIn(r), kept: g.sessions.reason(r, who)}
	ctx, cancel := context.WithCancelCause(context.WithValue(NewContext(r.Context(), who), auditKey{}, a))
	defer cancel(nil)
	defer g.watch(ctx, r, cancel)()
	g.pass(w, r.WithContext(ctx), next, a)
}

func requestKey(who Identity) string { return string(who.Method) + " " + who.Name }

// limitRequests counts a request of an identity.
func (g *Guard) limitRequests(who Identity) error {
	if wait := g.requests.wait(requestKey(who), time.Now()); wait > 0 {
		return &Error{Code: code.RateLimited, Problem: "too many requests of " + who.Name + ": wait", After: wait}
	}
	return nil
}

// pass calls next, and records an action before its response is sent.
func (g *Guard) pass(w http.ResponseWriter, r *http.Request, next http.Handler, a *audit) {
	action := g.isAction(r)
	if action {
		if err := g.recorder.Ready(); err != nil {
			g.refuse(w, r, errUnrecorded(err))
			return
		}
	}
	recorded := &recordedResponse{ResponseWriter: w}
	recorded.before = func(status int) error {
		if !action && status != http.StatusForbidden {
			return nil
		}
		return g.record(r.Context(), Record{Identity: FromContext(r.Context()), Action: a.describe(r), Status: status, Problem: a.problemAt(status)})
	}
	defer recorded.end()
	next.ServeHTTP(recorded, r)
}

// isAction reports whether a request may change something.
func (g *Guard) isAction(r *http.Request) bool {
	if isSafe(r.Method) {
		return false
	}
	_, query := g.queries.Handler(r)
	return query == ""
}

// admit returns the identity of a request, or an error that refuses it.
func (g *Guard) admit(r *http.Request) (Identity, error) {
	if !g.authenticates() {
		if err := checkLoopback(r); err != nil {
			return Identity{}, err
		}
	}
	if err := g.checkSite(r); err != nil {
		return Identity{}, err
	}
	who, err := g.identify(r)
	if err != nil {
		return who, err
	}
	if needed := g.neededRole(r); !who.May(needed) {
		if g.needs != nil {
			needed = max(needed, g.needs.Role(r))
		}
		return who, NeedsRole(who, needed)
	}
	return who, nil
}

func (g *Guard) neededRole(r *http.Request) Role {
	if g.isAction(r) {
		return Operator
	}
	return Viewer
}

// recheckInterval is how often the identity of a request that lasts is checked.
const recheckInterval = 15 * time.Second

// watch ends a request that lasts when its identity is no longer valid. The function that
// it returns ends the watch.
func (g *Guard) watch(ctx context.Context, r *http.Request, cancel context.CancelCauseFunc) (end func()) {
	var watching sync.WaitGroup
	stop := make(chan struct{})
	watching.Go(func() {
		ticker := time.NewTicker(recheckInterval)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			_, err := g.admit(r)
			if status := statusFor(err); status == http.StatusUnauthorized || status == http.StatusForbidden {
				cancel(err)
				return
			}
		}
	})
	return func() { close(stop); watching.Wait() }
}

// refuse writes the response to a refused request. A browser without a session goes to the
// provider.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var refusal *Error
	if errors.As(err, &refusal) && refusal.Cause != nil {
		g.logger.Warn("an HTTP request failed", "path", r.URL.Path, "error", refusal.Problem, "cause", refusal.Cause)
	}
	if isMissing(err) && g.provider != nil && wantsPage(r) {
		http.Redirect(w, r, pathLogin+"?return="+url.QueryEscape(localPath(r.URL.RequestURI())), http.StatusSeeOther)
		return
	}
	if statusOf(err) == http.StatusTooManyRequests {
		w.Header().Set("Connection", "close") // others need it more
	}
	page := signInPage{Style: g.style}
	if statusOf(err) == http.StatusUnauthorized {
		back := r.URL.RequestURI()
		if r.URL.Path == pathToken {
			back = r.PostFormValue("return")
		}
		page = g.signInPage(localPath(back))
	}
	refuse(w, r, err, page)
}

func (g *Guard) signInPage(back string) signInPage {
	return signInPage{Provider: g.provider != nil, Token: g.tokens != nil, Return: back, Style: g.style}
}
