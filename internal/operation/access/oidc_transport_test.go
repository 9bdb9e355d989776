package access

import (
	"compress/gzip"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// A provider that answers much, or that redirects, is unavailable.
func TestBoundsOfTheProvider(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request, discovery string)
		status int
		cause  string
	}{
		"discovery": {func(w http.ResponseWriter, _ *http.Request, discovery string) {
			fmt.Fprint(w, discovery)
		}, http.StatusSeeOther, ""},
		"much": {func(w http.ResponseWriter, _ *http.Request, discovery string) {
			fmt.Fprint(w, discovery, strings.Repeat(" ", maxProviderResponse))
		}, http.StatusServiceUnavailable, "the response has more than 1048576 bytes"},
		"compressed": {func(w http.ResponseWriter, _ *http.Request, discovery string) {
			w.Header().Set("Content-Encoding", "gzip")
			packed := gzip.NewWriter(w)
			fmt.Fprint(packed, discovery)
			packed.Close()
		}, http.StatusServiceUnavailable, "http.auth.oidc.issuer"},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request, discovery string) {
			if r.URL.Path == "/.well-known/openid-configuration" {
				http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
				return
			}
			fmt.Fprint(w, discovery)
		}, http.StatusServiceUnavailable, "which is not followed"},
	} {
		t.Run(name, func(t *testing.T) {
			var issuer string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				test.answer(w, r, fmt.Sprintf(`{"issuer": %q, "authorization_endpoint": "%[1]s/login", "token_endpoint": "%[1]s/token", "jwks_uri": "%[1]s/keys"}`, issuer))
			}))
			t.Cleanup(server.Close)
			issuer = server.URL
			var log strings.Builder
			public := &url.URL{Scheme: "http", Host: "watership.example"}
			guard, err := New(Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Recorder: &records{}, URL: public, OIDC: &OIDC{Issuer: issuer, ClientID: "web"}})
			if err != nil {
				t.Fatal(err)
			}
			got := httptest.NewRecorder()
			guard.Handler(http.NotFoundHandler()).ServeHTTP(got, httptest.NewRequest(http.MethodGet, "http://watership.example"+pathLogin, nil))
			if got.Code != test.status || !strings.Contains(log.String(), test.cause) {
				t.Errorf("%d, log %s", got.Code, log.String())
			}
		})
	}
}
