package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/watershipmq/watership/internal/config"
)

func TestPasswordsThatTravelInClear(t *testing.T) {
	for name, test := range map[string]struct {
		broker, store string
		want          []string
	}{
		"on this machine":      {"amqp://ann:s3cret@127.0.0.1/", "http://ann:s3cret@127.0.0.1:9200", nil},
		"IPv6 on this machine": {"amqp://ann:s3cret@[::1]/", "", nil},
		"a container":          {"amqp://ann:s3cret@rabbitmq/", "http://ann:s3cret@elastic:9200", nil},
		"with TLS":             {"amqps://ann:s3cret@mq.example.org/", "https://ann:s3cret@es.example.org", nil},
		"another network":      {"amqp://ann:s3cret@mq.example.org/", "", []string{"amqp.url: the password travels in clear to mq.example.org"}},
		"an address":           {"amqp://ann:s3cret@10.0.0.7/", "", []string{"amqp.url: the password travels in clear to 10.0.0.7"}},
		"the default login": {"amqp://guest:guest@mq.example.org/", "", []string{
			"amqp.url: the password travels in clear to mq.example.org", "amqp.url: mq.example.org has the login guest with its default password",
		}},
		"guest with a password": {"amqp://guest:s3cret@mq.example.org/", "", []string{"amqp.url: the password travels in clear to mq.example.org"}},
		"the store":             {"", "http://ann:s3cret@es.example.org:9200", []string{"store.url: the login travels in clear to es.example.org:9200"}},
		"a store without login": {"", "http://es.example.org:9200", nil},
		"a file":                {"", "sqlite:store.db", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var cfg config.Config
			cfg.AMQP.URL, cfg.Store.URL = config.NewURL(test.broker), config.NewURL(test.store)
			list := Exposures(cfg)
			if len(list) != len(test.want) {
				t.Errorf("%d findings, want %d\n%s", len(list), len(test.want), text(list))
			}
			for _, detail := range test.want {
				want(t, list, Warning, detail, "")
			}
			wantNone(t, list, "s3cret")
		})
	}
}

func TestALoginOfTheStoreMayBeInOtherSettings(t *testing.T) {
	for name, store := range map[string]config.Store{"username": {Username: "ann"}, "API key": {APIKeyFile: "key"}} {
		t.Run(name, func(t *testing.T) {
			store.URL = config.NewURL("http://es.example.org")
			want(t, Exposures(config.Config{Store: store}), Warning, "store.url: the login travels in clear", "https://")
		})
	}
}

func TestSecretsThatEveryUserMayRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(file, nil, 0o600))
	configs := map[string]config.Config{
		"amqp.password_file":         {AMQP: config.AMQP{PasswordFile: file}},
		"amqp.state_key_file":        {AMQP: config.AMQP{StateKeyFile: file}},
		"redact.hash_key_file":       {Redact: config.Redact{HashKeyFile: file}},
		"redact.original_keys_file":  {Redact: config.Redact{OriginalKeysFile: file}},
		"store.password_file":        {Store: config.Store{PasswordFile: file}},
		"store.api_key_file":         {Store: config.Store{APIKeyFile: file}},
		"token_file":                 {Server: config.Server{TokenFile: file}},
		"http.auth.session_key_file": {HTTP: config.HTTP{Auth: config.Auth{SessionKeyFile: file}}},
		"routes[0].handler.http.secret_file": {Routes: []config.Route{{
			Handler: config.Handler{HTTP: config.HTTPHandler{SecretFile: file}},
		}}},
	}
	for key, cfg := range configs {
		if list := Exposures(cfg); len(list) != 0 {
			t.Errorf("%s is for its owner alone: %s", key, text(list))
		}
	}
	must(t, os.Chmod(file, 0o644))
	for key, cfg := range configs {
		want(t, Exposures(cfg), Warning, key+": every user of this machine may read "+file, "chmod 600 "+file)
	}
}

func TestFilesThatAreNotReadByAll(t *testing.T) {
	folder := t.TempDir()
	for _, file := range []string{"", folder, filepath.Join(folder, "missing"), "/run/secrets/password"} {
		if ReadByAll(file) {
			t.Errorf("%q", file)
		}
	}
}
