package elastic

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

const secret = "s3cret"

func TestOpenRefuses(t *testing.T) {
	url := []string{"https://es.example:9200"}
	for name, tt := range map[string]struct {
		cfg  Config
		says string
	}{
		"no URL":               {Config{}, "at least one URL"},
		"no scheme":            {Config{URLs: []string{"es.example:9200"}}, "URL 1"},
		"another scheme":       {Config{URLs: []string{"https://a", "amqp://user:" + secret + "@b"}}, "URL 2"},
		"a slash in password":  {Config{URLs: []string{"https://user:" + secret + "/" + secret + "@b"}}, "%XX"},
		"two logins":           {Config{URLs: []string{"https://user:" + secret + "@a", "https://you:" + secret + "@b"}}, "one login"},
		"two passwords":        {Config{URLs: []string{"https://user:" + secret + "@a"}, Username: "user", Password: "other"}, "one login"},
		"a key and a login":    {Config{URLs: url, Username: "user", Password: secret, APIKey: secret}, "API key"},
		"no password":          {Config{URLs: url, Username: "user"}, "without a password"},
		"a wildcard":           {Config{URLs: url, Stream: "logs-*"}, `"logs-*"`},
		"a capital":            {Config{URLs: url, Stream: "Logs"}, `"Logs"`},
		"a leading dot":        {Config{URLs: url, Stream: ".logs"}, `".logs"`},
		"retention of what":    {Config{URLs: url, Retention: map[schemas.Stream]string{"all": "1d"}}, `"all"`},
		"retention of no unit": {Config{URLs: url, Retention: map[schemas.Stream]string{schemas.Traffic: "30"}}, `"30"`},
		"retention of no size": {Config{URLs: url, Retention: map[schemas.Stream]string{schemas.Traffic: "d"}}, `"d"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(tt.cfg)
			if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), secret) {
				t.Errorf("got %v, want something with %q and no password", err, tt.says)
			}
		})
	}
}

func TestCredentials(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization") + " " + r.URL.Path
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	withLogin := strings.Replace(server.URL, "://", "://user:"+secret+"@", 1)
	basic := "Basic dXNlcjpzM2NyZXQ=" // of user:s3cret
	for name, tt := range map[string]struct {
		cfg  Config
		want string
	}{
		"none":      {Config{URLs: []string{server.URL}}, " /_bulk"},
		"in fields": {Config{URLs: []string{server.URL}, Username: "user", Password: secret}, basic + " /_bulk"},
		"in URL":    {Config{URLs: []string{withLogin + "/es/"}}, basic + " /es/_bulk"},
		"key":       {Config{URLs: []string{server.URL}, APIKey: "a2V5"}, "APIKey a2V5 /_bulk"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.cfg.Product = Elasticsearch // it is not asked, and the bulk request is the only one
			_, err := open(t, tt.cfg).Create(t.Context(), []schemas.Document{document("a")})
			if got != tt.want {
				t.Errorf("sent %q, want %q", got, tt.want)
			}
			wantStoreError(t, err, eventstore.Unauthorized)
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q tells the password", err)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		fmt.Fprint(w, `{"items":[{"create":{"_id":"a","status":201}}]}`)
	}))
	defer server.Close()
	server.Config.ErrorLog = nil
	_, err := open(t, Config{URLs: []string{server.URL}}).Create(t.Context(), []schemas.Document{document("a")})
	wantStoreError(t, err, eventstore.Unavailable) // an unknown authority

	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	s := open(t, Config{URLs: []string{server.URL}, TLS: &tls.Config{RootCAs: roots}})
	if _, err := s.Create(t.Context(), []schemas.Document{document("a")}); err != nil {
		t.Error(err)
	}
}
