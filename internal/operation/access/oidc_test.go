package access

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// realProvider is an OpenID Connect provider in a process of its own. start starts it.
type realProvider struct {
	issuer string
	start  func()
}

// newRealProvider prepares a provider with two users, which sends browsers back to a site.
func newRealProvider(t *testing.T, back string) realProvider {
	t.Helper()
	program := os.Getenv("WATERSHIP_TEST_OIDC")
	if program == "" {
		const missing = `WATERSHIP_TEST_OIDC is not set (eval "$(scripts/fixtures env)")`
		if os.Getenv("WATERSHIP_TEST_REQUIRED") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	users := filepath.Join(t.TempDir(), "users.json")
	const list = `{
		"u1": {"ID": "u1", "Username": "ada", "Password": "secret", "Email": "ada@example.com", "EmailVerified": true},
		"u2": {"ID": "u2", "Username": "bob", "Password": "secret", "Email": "bob@example.com", "EmailVerified": true}
	}`
	if err := os.WriteFile(users, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(rabbittest.FreeAddress(t))
	issuer := "http://localhost:" + port + "/"
	return realProvider{issuer, func() {
		ctx, stop := context.WithCancel(context.Background())
		command := exec.CommandContext(ctx, program)
		command.Env = append(os.Environ(), "PORT="+port, "USERS_FILE="+users, "REDIRECT_URI="+back)
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(); _ = command.Wait() })
		for {
			if response, err := http.Get(issuer + ".well-known/openid-configuration"); err == nil {
				response.Body.Close()
				return
			}
			time.Sleep(10 * time.Millisecond) // until the process listens
		}
	}}
}

// newProviderSite starts a site that signs in with a provider, which does not run yet.
func newProviderSite(t *testing.T) (*site, realProvider) {
	t.Helper()
	s := &site{recorded: &records{}, Server: httptest.NewUnstartedServer(nil)}
	address := "http://" + s.Listener.Addr().String()
	provider := newRealProvider(t, address+pathCallback)
	public, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	tokens, _ := newTokens(t)
	s.tokens = tokens
	s.guard, err = New(Config{
		Logger: slog.New(slog.DiscardHandler), Recorder: s.recorded, URL: public, Tokens: tokens,
		OIDC: &OIDC{
			Issuer: provider.issuer, ClientID: "web", ClientSecret: "secret", Scopes: []string{"email"}, NameClaim: "email", RolesClaim: "email",
			Roles: []Grant{{Claim: "ada@example.com", Role: Operator, Queues: []string{"orders*"}}}, Bearer: true,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Config.Handler = s.guard.Handler(pages())
	s.Start()
	t.Cleanup(s.Close)
	return s, provider
}

// browse follows redirects as a browser does, enters a name and a password, and returns the
// last response.
func browse(t *testing.T, client *http.Client, to, user string) (*http.Response, string) {
	t.Helper()
	get := func(r *http.Request) (*http.Response, string) {
		r.Header.Set("Accept", "text/html")
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
	r, _ := http.NewRequest(http.MethodGet, to, nil)
	response, page := get(r)
	form := regexp.MustCompile(`name="id" value="([^"]+)"`).FindStringSubmatch(page)
	if form == nil {
		return response, page
	}
	values := url.Values{"id": {form[1]}, "username": {user}, "password": {"secret"}}
	r, _ = http.NewRequest(http.MethodPost, response.Request.URL.Scheme+"://"+response.Request.URL.Host+"/login/username", strings.NewReader(values.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return get(r)
}

func newBrowser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar}
}

func TestSignInWithAProvider(t *testing.T) {
	s, provider := newProviderSite(t)
	_, secrets := newTokens(t)
	if response, _ := s.send(t, "GET", "/", bearer(secrets["viewer"])); response.StatusCode != 401 {
		t.Errorf("a token of another file: %d", response.StatusCode)
	}
	secret, err := s.tokens.Create(Token{Name: "ci", Role: Viewer})
	if err != nil {
		t.Fatal(err)
	}
	if response, _ := s.send(t, "GET", "/", bearer(secret)); response.StatusCode != 200 {
		t.Errorf("a token while the provider is down: %d", response.StatusCode)
	}
	if response, page := browse(t, newBrowser(t), s.URL+"/jobs", ""); response.StatusCode != 503 || !strings.Contains(page, "unavailable") {
		t.Errorf("a browser while the provider is down: %d: %s", response.StatusCode, page)
	}
	provider.start()
	s.guard.provider.failed = time.Time{} // as after providerRetry

	ada := newBrowser(t)
	response, page := browse(t, ada, s.URL+"/jobs?a=1", "ada")
	if response.StatusCode != 200 || page != "ada@example.com" || response.Request.URL.RequestURI() != "/jobs?a=1" {
		t.Fatalf("%d at %s: %s", response.StatusCode, response.Request.URL, page)
	}
	records := s.recorded.take()
	if last := records[len(records)-1]; last.Action.Name != "sign in" || last.Identity.Name != "ada@example.com" || !last.Done() {
		t.Errorf("%+v", records)
	}
	response, page = browse(t, newBrowser(t), s.URL+"/", "bob")
	if response.StatusCode != 403 || !strings.Contains(page, "bob@example.com has no role") {
		t.Errorf("somebody without a role: %d: %s", response.StatusCode, page)
	}
	if records = s.recorded.take(); len(records) != 1 || records[0].Identity.Name != "bob@example.com" || records[0].Done() {
		t.Errorf("%+v", records)
	}

	// After a restart with another key the browser has a cookie that cannot be read.
	for range attemptBurst + 1 {
		response, _ := s.send(t, "GET", "/", header{"Accept": "text/html", "Cookie": s.guard.sessions.cookieName(sessionPurpose) + "=forged"})
		if to := response.Header.Get("Location"); response.StatusCode != 303 || !strings.HasPrefix(to, pathLogin) {
			t.Fatalf("%d, to %s", response.StatusCode, to)
		}
	}

	r, _ := http.NewRequest(http.MethodPost, s.URL+"/act", nil)
	if response, err := ada.Do(r); err != nil || response.StatusCode != 200 {
		t.Errorf("an action: %v", err)
	}
	out, err := ada.PostForm(s.URL+pathLogout, nil)
	if err != nil || out.StatusCode != 200 || out.Request.URL.Path != pathLoggedOut {
		t.Fatalf("%v, %v", out, err)
	}
	r, _ = http.NewRequest(http.MethodGet, s.URL+"/", nil)
	if response, err := ada.Do(r); err != nil || response.StatusCode != 401 {
		t.Errorf("after the sign-out: %v, %v", response, err)
	}
}

// The answer of the provider counts only in the browser that has asked, and once.
func TestCallbacksOfOthers(t *testing.T) {
	s, provider := newProviderSite(t)
	provider.start()
	victim := newBrowser(t)
	attacker := newBrowser(t)
	var callback string
	attacker.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == pathCallback && r.URL.Query().Has("code") { // the provider has such a path, too
			callback = r.URL.String()
			return http.ErrUseLastResponse
		}
		return nil
	}
	browse(t, attacker, s.URL+"/", "ada")
	if callback == "" {
		t.Fatal("no callback")
	}
	if response, page := browse(t, victim, callback, ""); response.StatusCode != 401 {
		t.Errorf("in another browser: %d: %s", response.StatusCode, page)
	}
	changed := strings.Replace(callback, "state=", "state=x", 1)
	if response, _ := browse(t, attacker, changed, ""); response.StatusCode != 401 {
		t.Errorf("with another state: %d", response.StatusCode)
	}
	if response, _ := browse(t, attacker, callback+"&iss=https://evil.example", ""); response.StatusCode != 401 {
		t.Errorf("of another issuer: %d", response.StatusCode)
	}
	if response, page := browse(t, attacker, s.URL+pathCallback+"?error=access_denied&error_description=%3Cscript%3E&"+strings.SplitN(callback, "?", 2)[1], ""); response.StatusCode != 401 || strings.Contains(page, "<script>") {
		t.Errorf("an error of the provider: %d: %s", response.StatusCode, page)
	}
	attacker.CheckRedirect = nil
	if response, page := browse(t, attacker, callback, ""); response.StatusCode != 200 || page != "ada@example.com" {
		t.Errorf("in the browser that asked: %d: %s", response.StatusCode, page)
	}
	if response, _ := browse(t, attacker, callback, ""); response.StatusCode != 401 {
		t.Errorf("a second time: %d", response.StatusCode)
	}
}

// fakeProvider issues any ID token.
type fakeProvider struct {
	*httptest.Server
	key *rsa.PrivateKey

	// redeem returns the response for a code, with its PKCE verifier.
	redeem func(verifier string) string
}

func newFakeProvider(t *testing.T) *fakeProvider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &fakeProvider{key: key}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"authorization_endpoint":%q,"token_endpoint":%q,"id_token_signing_alg_values_supported":["RS256"]}`,
				p.URL, p.URL+"/keys", p.URL+"/authorize", p.URL+"/token")
		case "/token":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, p.redeem(r.FormValue("code_verifier")))
		case "/keys":
			fmt.Fprintf(w, `{"keys":[{"kty":"RSA","kid":"1","alg":"RS256","use":"sig","n":%q,"e":"AQAB"}]}`, base64.RawURLEncoding.EncodeToString(key.N.Bytes()))
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// sign returns an ID token with claims; changed ones replace those of a valid token.
func (p *fakeProvider) sign(t *testing.T, key *rsa.PrivateKey, changed map[string]any) string {
	t.Helper()
	c := map[string]any{"iss": p.URL, "aud": "watership", "sub": "u1", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(), "groups": []string{"dev", "ops"}}
	for name, value := range changed {
		c[name] = value
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	content := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","kid":"1"}`)) + "." + base64.RawURLEncoding.EncodeToString(text)
	sum := sha256.Sum256([]byte(content))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return content + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// The ID token for a code must be that of the sign-in, and the code is protected by PKCE.
func TestCodesOfOtherSignIns(t *testing.T) {
	p := newFakeProvider(t)
	public, _ := url.Parse("http://127.0.0.1")
	s := newSite(t, Config{URL: public, OIDC: &OIDC{Issuer: p.URL, ClientID: "watership", NameClaim: "email", RolesClaim: "groups", Roles: []Grant{{Claim: "ops", Role: Admin}}}})
	for name, test := range map[string]struct {
		nonce func(string) string
		want  int
	}{
		"its nonce":     {func(nonce string) string { return nonce }, 303},
		"another nonce": {func(string) string { return "other" }, 401},
		"no nonce":      {func(string) string { return "" }, 401},
	} {
		response, _ := s.send(t, "GET", pathLogin+"?return=/jobs", nil)
		to, err := url.Parse(response.Header.Get("Location"))
		if err != nil || len(response.Cookies()) != 1 {
			t.Fatalf("%v: %v", err, response.Header)
		}
		asked := to.Query()
		p.redeem = func(verifier string) string {
			sum := sha256.Sum256([]byte(verifier))
			if asked.Get("code_challenge_method") != "S256" || base64.RawURLEncoding.EncodeToString(sum[:]) != asked.Get("code_challenge") {
				t.Errorf("%s: the verifier is not that of %v", name, asked)
			}
			return fmt.Sprintf(`{"access_token":"a","token_type":"Bearer","id_token":%q}`, p.sign(t, p.key, map[string]any{"nonce": test.nonce(asked.Get("nonce"))}))
		}
		cookie := response.Cookies()[0]
		response, body := s.send(t, "GET", pathCallback+"?code=c&state="+asked.Get("state"), header{"Cookie": cookie.Name + "=" + cookie.Value})
		if response.StatusCode != test.want {
			t.Errorf("%s: %d: %s", name, response.StatusCode, body)
		}
		if test.want == 303 && (len(response.Cookies()) != 2 || response.Cookies()[0].MaxAge >= 0 || response.Header.Get("Location") != "/jobs") {
			t.Errorf("%s: %v", name, response.Header)
		}
	}
}

// Whoever sends wrong ID tokens cannot make the server verify any number of them.
func TestWrongIDTokensAreLimited(t *testing.T) {
	p := newFakeProvider(t)
	public, _ := url.Parse("https://watership.example")
	s := newSite(t, Config{URL: public, OIDC: &OIDC{Issuer: p.URL, ClientID: "watership", NameClaim: "email", RolesClaim: "groups", Bearer: true, Roles: []Grant{{Claim: "ops", Role: Admin}}}})
	for range attemptBurst {
		s.send(t, "GET", "/", bearer("eyJhbGciOiJub25lIn0.e30."))
	}
	if response, _ := s.send(t, "GET", "/", bearer(p.sign(t, p.key, nil))); response.StatusCode != 429 || response.Header.Get("Retry-After") == "" {
		t.Errorf("got %d: %v", response.StatusCode, response.Header)
	}
}

func TestIDTokensOfPrograms(t *testing.T) {
	p := newFakeProvider(t)
	public, _ := url.Parse("https://watership.example")
	s := newSite(t, Config{URL: public, OIDC: &OIDC{Issuer: p.URL, ClientID: "watership", NameClaim: "email", RolesClaim: "groups", Bearer: true, Roles: []Grant{{Claim: "ops", Role: Admin}}}})
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + strings.Split(p.sign(t, p.key, nil), ".")[1] + "."
	for name, test := range map[string]struct {
		token string
		want  int
		user  string
	}{
		"valid":                      {p.sign(t, p.key, nil), 200, "u1"},
		"with a verified address":    {p.sign(t, p.key, map[string]any{"email": "ada@example.com", "email_verified": true}), 200, "ada@example.com"},
		"verified by a text":         {p.sign(t, p.key, map[string]any{"email": "ada@example.com", "email_verified": "false"}), 200, "u1"},
		"verified by a number":       {p.sign(t, p.key, map[string]any{"email": "ada@example.com", "email_verified": 0}), 200, "u1"},
		"with another's address":     {p.sign(t, p.key, map[string]any{"email": "ada@example.com", "email_verified": false}), 200, "u1"},
		"of another audience":        {p.sign(t, p.key, map[string]any{"aud": "grafana"}), 401, ""},
		"of several audiences":       {p.sign(t, p.key, map[string]any{"aud": []string{"watership", "grafana"}, "azp": "watership"}), 200, "u1"},
		"that another client got":    {p.sign(t, p.key, map[string]any{"aud": []string{"watership", "grafana"}, "azp": "grafana"}), 401, ""},
		"that another got for it":    {p.sign(t, p.key, map[string]any{"azp": "grafana"}), 401, ""},
		"that any of two got":        {p.sign(t, p.key, map[string]any{"aud": []string{"watership", "grafana"}}), 401, ""},
		"of another issuer":          {p.sign(t, p.key, map[string]any{"iss": "https://evil.example"}), 401, ""},
		"expired":                    {p.sign(t, p.key, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}), 401, ""},
		"of another key":             {p.sign(t, other, nil), 401, ""},
		"without a signature":        {unsigned, 401, ""},
		"without a role":             {p.sign(t, p.key, map[string]any{"groups": []string{"dev"}}), 403, ""},
		"with roles of another kind": {p.sign(t, p.key, map[string]any{"groups": map[string]any{"ops": true}}), 403, ""},
	} {
		if response, body := s.send(t, "GET", "/", bearer(test.token)); response.StatusCode != test.want || test.user != "" && body != test.user {
			t.Errorf("%s: %d: %s", name, response.StatusCode, body)
		}
	}
}

func TestClaims(t *testing.T) {
	c := claims{"groups": []any{"a", 1.0, "b"}, "role": "admin", "realm_access": map[string]any{"roles": []any{"ops"}}, "https://example/roles": []any{"url"}, "number": 1.0}
	for path, want := range map[string]string{"groups": "a b", "role": "admin", "realm_access.roles": "ops", "https://example/roles": "url", "number": "", "missing": "", "role.a": "", "": ""} {
		if got := strings.Join(c.texts(path), " "); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
