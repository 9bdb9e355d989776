package secret

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/config"
)

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What a file lacks is said with its key and its name, and no secret is.
func TestSecretsThatCannotBeRead(t *testing.T) {
	empty, text := writeFile(t, "empty", "\n"), writeFile(t, "text", "s3cret")
	broker := config.NewURL("amqp://user@host/")
	for name, test := range map[string]struct {
		cfg  config.Config
		want string
	}{
		"no file":        {config.Config{AMQP: config.AMQP{URL: broker, PasswordFile: "/nowhere/pw"}}, "amqp.password_file: /nowhere/pw: no such file or directory"},
		"an empty one":   {config.Config{Store: config.Store{PasswordFile: empty}}, "store.password_file: " + empty + " is empty: write the secret into it"},
		"no key file":    {config.Config{Store: config.Store{APIKeyFile: "/nowhere/key"}}, "store.api_key_file: /nowhere/key: no such file or directory"},
		"no authority":   {config.Config{AMQP: config.AMQP{TLS: config.TLS{CA: text}}}, "amqp.tls.ca: " + text + ": expected certificates in PEM"},
		"half of a pair": {config.Config{Store: config.Store{TLS: config.TLS{Cert: text}}}, "store.tls.cert and store.tls.key: expected both or neither"},
		"no pair":        {config.Config{Store: config.Store{TLS: config.TLS{Cert: text, Key: text}}}, "store.tls.cert " + text + " with store.tls.key " + text + ": tls: failed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(&test.cfg)
			if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// The password goes to the management API too, where it has the same login.
func TestPasswordOfTheBroker(t *testing.T) {
	file := writeFile(t, "password", "p@ss/word\r\n")
	for management, want := range map[string]string{
		"http://user@host:15672":       "http://user:p%40ss%2Fword@host:15672",
		"http://host:15672":            "http://user:p%40ss%2Fword@host:15672",
		"http://other@host:15672":      "http://other@host:15672",
		"http://user:own@host:15672":   "http://user:own@host:15672",
		"https://other:own@host:15671": "https://other:own@host:15671",
	} {
		cfg := config.Config{AMQP: config.AMQP{
			URL: config.NewURL("amqps://user@host/v"), ManagementURL: config.NewURL(management), PasswordFile: file,
		}}
		if _, err := Read(&cfg); err != nil {
			t.Fatal(err)
		}
		if got := cfg.AMQP.URL.Reveal(); got != "amqps://user:p%40ss%2Fword@host/v" {
			t.Errorf("amqp.url is %s", got)
		}
		if got := cfg.AMQP.ManagementURL.Reveal(); got != want {
			t.Errorf("amqp.management_url %s became %s, want %s", management, got, want)
		}
	}
}

// A route's secrets are read for its own queue, and a file that has none is named with the
// key of its route.
func TestSecretsOfRoutes(t *testing.T) {
	file := writeFile(t, "secrets", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
	route := func(queue, file string) config.Route {
		return config.Route{Queue: queue, Handler: config.Handler{HTTP: config.HTTPHandler{SecretFile: file}}}
	}
	secrets, err := Webhooks([]config.Route{route("a", ""), route("b", file)})
	if err != nil || len(secrets) != 1 || len(secrets["b"]) != 1 {
		t.Errorf("%d queues with secrets, %v", len(secrets), err)
	}
	for bad, want := range map[string]string{
		writeFile(t, "text", "s3cret"): "is no secret: expected base64", "/nowhere/secret": "no such file or directory",
	} {
		_, err := Webhooks([]config.Route{route("a", ""), route("b", bad)})
		if err == nil || !strings.HasPrefix(err.Error(), "routes[1].handler.http.secret_file: "+bad+": ") ||
			!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
