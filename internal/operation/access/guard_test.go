package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// site is a server behind a guard, with what it has recorded.
type site struct {
	*httptest.Server
	guard    *Guard
	recorded *records
	tokens   *TokenFile
}

// newSite starts a server. Its handlers answer with the name of the identity, or act.
func newSite(t *testing.T, cfg Config) *site {
	t.Helper()
	s := &site{recorded: &records{}, tokens: cfg.Tokens}
	cfg.Logger, cfg.Recorder = slog.New(slog.DiscardHandler), s.recorded
	var err error
	if s.guard, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewServer(s.guard.Handler(pages()))
	t.Cleanup(s.Close)
	return s
}

func pages() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, FromContext(r.Context()).Name) })
	mux.HandleFunc("POST /search", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "found") })
	mux.HandleFunc("POST /act", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "done") })
	mux.HandleFunc("DELETE /queues/{name}", func(w http.ResponseWriter, r *http.Request) {
		Describe(r.Context(), Action{Name: "purge", Object: r.PathValue("name"), Reason: r.URL.Query().Get("reason")})
		if r.PathValue("name") == "missing" {
			http.Error(w, "no such queue", http.StatusNotFound)
		}
	})
	mux.HandleFunc("GET /jobs", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, FromContext(r.Context()).Name) })
	mux.HandleFunc("/several/", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /panic", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("GET /body", func(w http.ResponseWriter, r *http.Request) {
		if err := ReadBodies(r.Context(), "event.id: 1"); err != nil {
			w.WriteHeader(statusOf(err))
			return
		}
		fmt.Fprint(w, "secret")
	})
	return mux
}

// newTokens returns a file with a token of each role, and their secrets.
func newTokens(t *testing.T) (*TokenFile, map[string]string) {
	t.Helper()
	file := OpenTokenFile(filepath.Join(t.TempDir(), "tokens.json"))
	secrets := map[string]string{}
	for _, token := range []Token{
		{Name: "viewer", Role: Viewer},
		{Name: "operator", Role: Operator},
		{Name: "admin", Role: Admin, Bodies: true},
		{Name: "expired", Role: Admin, Expires: time.Now().Add(-time.Second)},
		{Name: "limited", Role: Operator, Queues: []string{"orders*"}},
	} {
		secret, err := file.Create(token)
		if err != nil {
			t.Fatal(err)
		}
		secrets[token.Name] = secret
	}
	return file, secrets
}

type header map[string]string

// send sends a request and returns the response with its body read.
func (s *site) send(t *testing.T, method, path string, with header) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range with {
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	client := *s.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func TestWithoutConfigurationOnlyThisMachine(t *testing.T) {
	s := newSite(t, Config{})
	for name, test := range map[string]struct {
		method string
		with   header
		want   int
	}{
		"a program":                  {"GET", nil, 200},
		"an action of a program":     {"POST", nil, 200},
		"localhost":                  {"POST", header{"Host": "LocalHost:8181"}, 200},
		"IPv6":                       {"GET", header{"Host": "[::1]:8181"}, 200},
		"IPv6 without a port":        {"GET", header{"Host": "[::1]"}, 200},
		"DNS rebinding":              {"GET", header{"Host": "evil.example"}, 421},
		"a name that begins so":      {"GET", header{"Host": "localhost.evil.example:80"}, 421},
		"an address in a name":       {"GET", header{"Host": "127.0.0.1.evil.example"}, 421},
		"another address":            {"GET", header{"Host": "192.0.2.1"}, 421},
		"an unspecified address":     {"GET", header{"Host": "0.0.0.0"}, 421},
		"the same origin":            {"POST", header{"Host": "localhost", "Origin": "http://localhost"}, 200},
		"another port of origin":     {"POST", header{"Host": "localhost", "Origin": "http://localhost:81"}, 403},
		"two origins":                {"GET", header{"Host": "localhost", "Origin": "http://localhost, https://evil.example"}, 403},
		"another site":               {"POST", header{"Origin": "https://evil.example"}, 403},
		"another site reads":         {"GET", header{"Origin": "https://evil.example"}, 403},
		"a sandbox":                  {"POST", header{"Origin": "null"}, 403},
		"an image of another site":   {"GET", header{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, 403},
		"a frame of another site":    {"GET", header{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403},
		"a form of another site":     {"POST", header{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 403},
		"a form of another host":     {"POST", header{"Sec-Fetch-Site": "same-site"}, 403},
		"a link on another site":     {"GET", header{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200},
		"a script of the page":       {"POST", header{"Sec-Fetch-Site": "same-origin"}, 200},
		"a reverse proxy":            {"GET", header{"X-Forwarded-For": "203.0.113.7"}, 403},
		"a reverse proxy by another": {"GET", header{"Forwarded": "for=203.0.113.7"}, 403},
		"a CDN":                      {"GET", header{"Via": "1.1 cdn"}, 403},
	} {
		path := "/act"
		if test.method == "GET" {
			path = "/"
		}
		response, body := s.send(t, test.method, path, test.with)
		if response.StatusCode != test.want {
			t.Errorf("%s: %d, want %d: %s", name, response.StatusCode, test.want, body)
		}
	}
}

func TestOtherMachinesNeedAuthentication(t *testing.T) {
	s := newSite(t, Config{})
	for address, want := range map[string]int{
		"127.0.0.1:1": 200, "[::1]:1": 200, "[::ffff:127.0.0.1]:1": 200,
		"172.17.0.1:1": 403, "[fe80::1%eth0]:1": 403, "[::ffff:10.0.0.1]:1": 403, "@": 403, "": 403,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host, r.RemoteAddr = "localhost", address
		w := httptest.NewRecorder()
		s.guard.Handler(pages()).ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("from %s: %d, want %d", address, w.Code, want)
		}
		if want == 403 && !strings.Contains(w.Body.String(), "configure http.auth") {
			t.Errorf("from %s: no word about the configuration: %s", address, w.Body)
		}
	}
}

func TestTokensAndRoles(t *testing.T) {
	file, secrets := newTokens(t)
	s := newSite(t, Config{Tokens: file, Queries: []string{"POST /search"}})
	unknown := newSecret()
	mistyped := strings.Replace(secrets["admin"], secrets["admin"][10:11], map[bool]string{true: "b", false: "a"}[secrets["admin"][10] == 'a'], 1)
	for name, test := range map[string]struct {
		request string
		with    header
		want    int
	}{
		"no token":                      {"GET /", nil, 401},
		"no token for an action":        {"POST /act", nil, 401},
		"viewer reads":                  {"GET /", bearer(secrets["viewer"]), 200},
		"viewer searches":               {"POST /search", bearer(secrets["viewer"]), 200},
		"viewer acts":                   {"POST /act", bearer(secrets["viewer"]), 403},
		"viewer acts by another path":   {"POST /search/../act", bearer(secrets["viewer"]), 403},
		"viewer acts by slashes":        {"POST //act", bearer(secrets["viewer"]), 403},
		"viewer acts by escapes":        {"POST /%61ct", bearer(secrets["viewer"]), 403},
		"viewer overrides the method":   {"GET /jobs", header{"Authorization": "Bearer " + secrets["viewer"], "X-HTTP-Method-Override": "POST"}, 200},
		"operator acts":                 {"POST /act", bearer(secrets["operator"]), 200},
		"unknown method":                {"PROPFIND /", bearer(secrets["viewer"]), 403},
		"lower case scheme":             {"GET /", header{"Authorization": "bearer " + secrets["viewer"]}, 200},
		"expired":                       {"GET /", bearer(secrets["expired"]), 401},
		"unknown":                       {"GET /", bearer(unknown), 401},
		"mistyped":                      {"GET /", bearer(mistyped), 401},
		"in upper case":                 {"GET /", bearer(strings.ToUpper(secrets["admin"])), 401},
		"with more after it":            {"GET /", bearer(secrets["admin"] + "a"), 401},
		"basic":                         {"GET /", header{"Authorization": "Basic " + secrets["admin"]}, 401},
		"in the URL":                    {"GET /?access_token=" + secrets["admin"], nil, 401},
		"the sign-in page as a way in":  {"GET /auth/../", nil, 307},
		"an unknown page of signing in": {"GET /auth/act", bearer(secrets["admin"]), 404},
		"an ID token":                   {"GET /", bearer("eyJhbGciOiJub25lIn0.e30."), 401},
		"a loopback Host":               {"GET /", header{"Host": "localhost"}, 401},
		"another site with a token":     {"POST /act", header{"Authorization": "Bearer " + secrets["admin"], "Origin": "https://evil.example"}, 403},
	} {
		method, path, _ := strings.Cut(test.request, " ")
		response, body := s.send(t, method, path, test.with)
		if response.StatusCode != test.want {
			t.Errorf("%s: %d, want %d: %s", name, response.StatusCode, test.want, body)
		}
		if test.want < 400 || test.want == 404 {
			continue
		}
		var p problem
		if err := json.Unmarshal([]byte(body), &p); err != nil || p.Status != test.want || p.Detail == "" || response.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %v: %s", name, err, body)
		}
		if test.want == 401 && response.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: %v", name, response.Header)
		}
		if strings.Contains(body, tokenPrefix) {
			t.Errorf("%s: the response has the token: %s", name, body)
		}
	}
}

func bearer(secret string) header { return header{"Authorization": "Bearer " + secret} }

func TestTokensAreRevokedAtOnce(t *testing.T) {
	file, secrets := newTokens(t)
	s := newSite(t, Config{Tokens: file})
	if response, body := s.send(t, "GET", "/", bearer(secrets["admin"])); response.StatusCode != 200 || body != "admin" {
		t.Fatalf("%d: %s", response.StatusCode, body)
	}
	if err := OpenTokenFile(file.path).Revoke("admin"); err != nil { // as another process does
		t.Fatal(err)
	}
	if response, body := s.send(t, "GET", "/", bearer(secrets["admin"])); response.StatusCode != 401 || !strings.Contains(body, "revoked") {
		t.Errorf("%d: %s", response.StatusCode, body)
	}
	secret, err := OpenTokenFile(file.path).Create(Token{Name: "admin", Role: Viewer})
	if err != nil {
		t.Fatal(err)
	}
	if response, _ := s.send(t, "GET", "/", bearer(secret)); response.StatusCode != 200 {
		t.Errorf("a new token: %d", response.StatusCode)
	}
}

func TestEveryActionIsRecorded(t *testing.T) {
	file, secrets := newTokens(t)
	s := newSite(t, Config{Tokens: file, Queries: []string{"POST /search"}})
	for _, test := range []struct {
		request, token string
		want           string // user, action, object, reason, status; "": nothing
	}{
		{"GET /", "admin", ""},
		{"POST /search", "viewer", ""},
		{"POST /act", "operator", "operator|POST /act|/act||200"},
		{"POST /nothing", "operator", "operator|POST|/nothing||404"},
		{"DELETE /queues/orders?reason=stale", "operator", "operator|purge|orders|stale|200"},
		{"PUT /several/routes", "operator", "operator|PUT|/several/routes||200"},
		{"DELETE /queues/missing", "operator", "operator|purge|missing||404"},
		{"POST /act", "viewer", "viewer|POST|/act||403"},
		{"GET /", "expired", "expired|GET|/||401"},
		{"GET /", "", ""},
		{"POST /act", "", "|POST|/act||401"},
		{"GET /body", "admin", "admin|read bodies|event.id: 1||200"},
		{"GET /body", "operator", "operator|read bodies|event.id: 1||403"},
	} {
		s.recorded.take()
		var with header
		if test.token != "" {
			with = bearer(secrets[test.token])
		}
		method, path, _ := strings.Cut(test.request, " ")
		s.send(t, method, path, with)
		var got []string
		for _, r := range s.recorded.take() {
			got = append(got, fmt.Sprintf("%s|%s|%s|%s|%d", r.Identity.Name, r.Action.Name, r.Action.Object, r.Action.Reason, r.Status))
			if !r.Identity.Address.IsLoopback() || r.Time.IsZero() {
				t.Errorf("%s: %+v", test.request, r)
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s by %s: %q, want %q", test.request, test.token, got, test.want)
		}
	}
}

func TestPanicIsRecorded(t *testing.T) {
	s := newSite(t, Config{})
	response, err := s.Client().Post(s.URL+"/panic", "", nil)
	if err == nil {
		response.Body.Close()
		t.Errorf("got %d", response.StatusCode)
	}
	s.Close() // waits for the request
	if list := s.recorded.take(); len(list) != 1 || list[0].Status != 500 {
		t.Errorf("%+v", list)
	}
}

func TestNothingIsDoneUnrecorded(t *testing.T) {
	s := newSite(t, Config{})
	s.recorded.err = errors.New("the broker is away")
	for request, want := range map[string]int{"POST /act": 503, "GET /body": 503, "GET /": 200} {
		method, path, _ := strings.Cut(request, " ")
		if response, body := s.send(t, method, path, nil); response.StatusCode != want || strings.Contains(body, "secret") || strings.Contains(body, "done") {
			t.Errorf("%s: %d: %s", request, response.StatusCode, body)
		}
	}
}

// What was done and could not be recorded is no success.
func TestDoneAndUnrecorded(t *testing.T) {
	s := newSite(t, Config{})
	s.Config.Handler = s.guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.recorded.err = errors.New("the broker has gone")
		fmt.Fprint(w, "done")
	}))
	if response, body := s.send(t, "POST", "/act", nil); response.StatusCode != 500 || strings.Contains(body, "done") || !strings.Contains(body, "could not be recorded") {
		t.Errorf("%d: %s", response.StatusCode, body)
	}
}

func TestRecordsOfRefusalsAreLimited(t *testing.T) {
	s := newSite(t, Config{})
	for range 2 * refusalBurst {
		s.send(t, "POST", "/act", header{"Origin": "https://evil.example"})
	}
	if n := len(s.recorded.take()); n < refusalBurst || n == 2*refusalBurst {
		t.Errorf("%d of %d refusals are recorded", n, 2*refusalBurst)
	}
}

func TestHeadersOfEveryResponse(t *testing.T) {
	file, secrets := newTokens(t)
	s := newSite(t, Config{Tokens: file})
	for _, with := range []header{nil, bearer(secrets["viewer"]), {"Accept": "text/html"}} {
		response, _ := s.send(t, "GET", "/", with)
		policy := response.Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") ||
			response.Header.Get("X-Content-Type-Options") != "nosniff" || response.Header.Get("Referrer-Policy") == "" || response.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%v: %v", with, response.Header)
		}
	}
}

func TestFailedAttemptsAreLimited(t *testing.T) {
	file, secrets := newTokens(t)
	s := newSite(t, Config{Tokens: file})
	last := 0
	for range attemptBurst + 1 {
		response, _ := s.send(t, "GET", "/", bearer(newSecret()))
		if last = response.StatusCode; last == 429 && response.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	if last != 429 {
		t.Errorf("after %d attempts: %d", attemptBurst+1, last)
	}
	if response, _ := s.send(t, "GET", "/", bearer(secrets["viewer"])); response.StatusCode != 200 {
		t.Errorf("a valid token is locked out: %d", response.StatusCode)
	}
	if n := len(s.recorded.take()); n != attemptBurst {
		t.Errorf("%d of %d attempts are recorded", n, attemptBurst)
	}
}

// Only attempts that fail count: the users of one address sign in as often as they like,
// and whoever failed too often is let in with a valid token.
func TestOnlyFailedSignInsAreLimited(t *testing.T) {
	file, secrets := newTokens(t)
	s := newSite(t, Config{Tokens: file})
	form := header{"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
	enter := func(secret string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+pathToken, strings.NewReader("token="+secret))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range form {
			r.Header.Set(name, value)
		}
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	for n := range attemptBurst + 1 {
		if status := enter(secrets["viewer"]); status != http.StatusSeeOther {
			t.Fatalf("sign-in %d: %d", n, status)
		}
		if response, _ := s.send(t, "GET", pathLoggedOut, nil); response.StatusCode != http.StatusOK {
			t.Fatalf("page %d after signing out: %d", n, response.StatusCode)
		}
	}
	s.recorded.take()
	for range attemptBurst {
		if status := enter(newSecret()); status != http.StatusUnauthorized {
			t.Fatalf("a wrong token: %d", status)
		}
	}
	if status := enter(newSecret()); status != http.StatusTooManyRequests {
		t.Errorf("a wrong token beyond the limit: %d", status)
	}
	if response, _ := s.send(t, "POST", pathLogout, nil); response.StatusCode != http.StatusTooManyRequests {
		t.Errorf("signing out without a session beyond the limit: %d", response.StatusCode)
	}
	if n := len(s.recorded.take()); n != attemptBurst {
		t.Errorf("%d of %d attempts are recorded", n, attemptBurst)
	}
	if status := enter(secrets["viewer"]); status != http.StatusSeeOther {
		t.Errorf("a valid token is locked out: %d", status)
	}
}

func TestRequestsOfAnIdentityAreLimited(t *testing.T) {
	file, secrets := newTokens(t)
	s := newSite(t, Config{Tokens: file})
	limited := false
	for range 4 * requestBurst {
		response, _ := s.send(t, "GET", "/", bearer(secrets["viewer"]))
		if limited = response.StatusCode == 429; limited {
			break
		}
	}
	if !limited {
		t.Error("no limit")
	}
	if response, _ := s.send(t, "GET", "/", bearer(secrets["operator"])); response.StatusCode != 200 {
		t.Errorf("another identity: %d", response.StatusCode)
	}
}

func TestConcurrentRequestsOfAnIdentityAreLimited(t *testing.T) {
	file, secrets := newTokens(t)
	s := newSite(t, Config{Tokens: file})
	begun, end := make(chan bool, maxRunning), make(chan struct{})
	s.Config.Handler = s.guard.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		begun <- true
		<-end
	}))
	var sending sync.WaitGroup
	for range maxRunning {
		sending.Go(func() { s.send(t, "GET", "/", bearer(secrets["viewer"])) })
	}
	for range maxRunning {
		<-begun
	}
	if response, _ := s.send(t, "GET", "/", bearer(secrets["viewer"])); response.StatusCode != 429 {
		t.Errorf("got %d", response.StatusCode)
	}
	close(end)
	sending.Wait()
	if response, _ := s.send(t, "GET", "/", bearer(secrets["viewer"])); response.StatusCode != 200 {
		t.Errorf("afterwards: %d", response.StatusCode)
	}
}

func TestTrustedProxiesNameTheClient(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}
	for forwarded, want := range map[string]string{
		"": "127.0.0.1", "203.0.113.7": "203.0.113.7", "198.51.100.1, 203.0.113.7": "203.0.113.7",
		"198.51.100.1, 203.0.113.7, 10.1.1.1": "203.0.113.7", "nonsense": "127.0.0.1", "203.0.113.7, nonsense": "127.0.0.1", "::ffff:203.0.113.7": "203.0.113.7",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("X-Forwarded-For", forwarded)
		if got := clientAddress(r, trusted).String(); got != want {
			t.Errorf("%q: %s, want %s", forwarded, got, want)
		}
		if got := clientAddress(r, nil).String(); got != "127.0.0.1" {
			t.Errorf("%q of a proxy that is not trusted: %s", forwarded, got)
		}
	}
}

func TestBrowsersSignInWithATokenAndOut(t *testing.T) {
	file, secrets := newTokens(t)
	s := newSite(t, Config{Tokens: file})
	response, page := s.send(t, "GET", "/jobs?a=1", header{"Accept": "text/html"})
	if response.StatusCode != 401 || !strings.Contains(page, `action="/auth/token"`) || !strings.Contains(page, `value="/jobs?a=1"`) || strings.Contains(page, "<script") || strings.Contains(page, "style=") {
		t.Fatalf("%d: %s", response.StatusCode, page)
	}
	cookie := s.signIn(t, secrets["viewer"], "/jobs?a=1")
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Secure || strings.Contains(cookie.Value, "wst_") {
		t.Errorf("%+v", cookie)
	}
	with := header{"Cookie": cookie.Name + "=" + cookie.Value}
	if response, body := s.send(t, "GET", "/", with); response.StatusCode != 200 || body != "viewer" {
		t.Errorf("%d: %s", response.StatusCode, body)
	}
	forged := []string{cookie.Value[:len(cookie.Value)-2] + "AA", "", "e30", strings.Repeat("A", 200)}
	other, err := newSealer(nil)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.seal(sessionPurpose, session{Name: "viewer", Claim: "admins", Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	begun, err := s.guard.sessions.sealer.seal(loginPurpose, session{Name: "viewer", Claim: "admins", Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range append(forged, foreign, begun) {
		if response, body := s.send(t, "GET", "/", header{"Cookie": cookie.Name + "=" + value}); response.StatusCode != 401 {
			t.Errorf("cookie %q: %d: %s", value, response.StatusCode, body)
		}
	}
	if response, _ := s.send(t, "POST", "/auth/logout", header{"Cookie": with["Cookie"], "Origin": "https://evil.example"}); response.StatusCode != 403 {
		t.Errorf("another site signs out: %d", response.StatusCode)
	}
	if response, _ := s.send(t, "POST", "/auth/logout", with); response.StatusCode != 303 || response.Header.Get("Location") != "/auth/logged-out" {
		t.Errorf("sign out: %d %v", response.StatusCode, response.Header)
	}
	if response, _ := s.send(t, "GET", "/", with); response.StatusCode != 401 {
		t.Errorf("a session that has ended: %d", response.StatusCode)
	}
	again := s.signIn(t, secrets["viewer"], "//evil.example")
	if err := file.Revoke("viewer"); err != nil {
		t.Fatal(err)
	}
	if response, _ := s.send(t, "GET", "/", header{"Cookie": again.Name + "=" + again.Value}); response.StatusCode != 401 {
		t.Errorf("a session of a revoked token: %d", response.StatusCode)
	}
}

// signIn enters a token in the form, and returns the session's cookie.
func (s *site) signIn(t *testing.T, secret, back string) *http.Cookie {
	t.Helper()
	client := *s.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.PostForm(s.URL+"/auth/token", url.Values{"token": {secret}, "return": {back}})
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if to := response.Header.Get("Location"); response.StatusCode != 303 || len(response.Cookies()) != 1 || strings.HasPrefix(to, "//") {
		t.Fatalf("%d: %v", response.StatusCode, response.Header)
	}
	return response.Cookies()[0]
}

// A mistyped token leads back to the form, and then to the page that was asked for.
func TestWrongTokenIsEnteredAgain(t *testing.T) {
	file, _ := newTokens(t)
	s := newSite(t, Config{Tokens: file})
	form := strings.NewReader(url.Values{"token": {"wst_wrong"}, "return": {"/jobs?a=1"}}.Encode())
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/auth/token", form)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "text/html")
	response, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"incomplete or mistyped", `action="/auth/token"`, `value="/jobs?a=1"`} {
		if response.StatusCode != 401 || !strings.Contains(string(page), part) {
			t.Errorf("%s: no %q in %s", response.Status, part, page)
		}
	}
}

func TestLocalPath(t *testing.T) {
	for to, want := range map[string]string{
		"/": "/", "/jobs?a=1": "/jobs?a=1", "/a%2fb": "/a%2fb", "": "/", "//evil.example": "/", "https://evil.example/": "/",
		`/\evil.example`: "/", "/\tevil": "/", "javascript:alert(1)": "/", "/auth/login": "/", "jobs": "/", "/%2F/evil.example": "/", "/x\r\nSet-Cookie: a": "/",
	} {
		if got := localPath(to); got != want {
			t.Errorf("%q: %q, want %q", to, got, want)
		}
	}
}

func TestSecureCookies(t *testing.T) {
	file, secrets := newTokens(t)
	s := newSite(t, Config{Tokens: file, URL: &url.URL{Scheme: "https", Host: "watership.example"}})
	if cookie := s.signIn(t, secrets["viewer"], "/"); !cookie.Secure || !strings.HasPrefix(cookie.Name, "__Host-") || cookie.Path != "/" || cookie.Domain != "" {
		t.Errorf("%+v", cookie)
	}
}

// A client that sends its body slowly is cut off, and a stream that the handler extends is
// not.
func TestSlowBodiesEndAndStreamsDoNot(t *testing.T) {
	s := newSite(t, Config{})
	s.Config.Handler = s.guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deadline := http.NewResponseController(w)
		if err := deadline.SetReadDeadline(time.Now().Add(-time.Second)); err != nil { // as after readTimeout
			t.Error(err)
		}
		if err := deadline.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadAll(r.Body); err == nil {
			t.Error("the body is read after the deadline")
		}
		fmt.Fprint(w, "first ")
		if err := deadline.Flush(); err != nil {
			t.Error(err)
		}
		fmt.Fprint(w, "second")
	}))
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx")
	answer, _ := io.ReadAll(conn)
	if !strings.Contains(string(answer), "first") || !strings.Contains(string(answer), "second") {
		t.Errorf("got %q", answer)
	}
}

func TestLargeBodiesAreRefused(t *testing.T) {
	s := newSite(t, Config{})
	var failed error
	s.Config.Handler = s.guard.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, failed = io.ReadAll(r.Body) }))
	response, err := s.Client().Post(s.URL, "", strings.NewReader(strings.Repeat("x", maxBody+1)))
	if err == nil {
		response.Body.Close()
	}
	var tooLarge *http.MaxBytesError
	if !errors.As(failed, &tooLarge) {
		t.Errorf("got %v", failed)
	}
}
