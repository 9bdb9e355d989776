// Package secret reads the files with passwords, keys and certificates that the
// configuration names. Its errors name the key of the setting and the file, and contain no
// secret; all of them are mistakes of the configuration.
package secret

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/rabbit/tlsfiles"
	"github.com/watershipmq/watership/internal/template/requestheader"
	"github.com/watershipmq/watership/pipeline/webhook"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/schemas"
)

// Secrets has the contents of the files.
type Secrets struct {
	AMQPTLS       *tls.Config // nil: as amqp.url says
	StoreTLS      *tls.Config // nil: the certificates that the operating system trusts
	StorePassword string
	StoreAPIKey   string
	StateKeys     schemas.StateKeys
	HashKeys      [][]byte     // of redact.hash_key_file
	Originals     privacy.Keys // nil: none
}

// Read reads the files for RabbitMQ and the store, and puts RabbitMQ's password into the
// URLs that need it. It returns every mistake.
func Read(cfg *config.Config) (s Secrets, err error) {
	password, broker := Text("amqp.password_file", cfg.AMQP.PasswordFile)
	if password != "" {
		broker = addPassword(&cfg.AMQP, password)
	}
	mistakes := []error{broker}
	read := func(err error) { mistakes = append(mistakes, err) }
	s.AMQPTLS, err = TLS("amqp.tls", cfg.AMQP.TLS)
	read(err)
	s.StoreTLS, err = TLS("store.tls", cfg.Store.TLS)
	read(err)
	s.StorePassword, err = Text("store.password_file", cfg.Store.PasswordFile)
	read(err)
	s.StoreAPIKey, err = Text("store.api_key_file", cfg.Store.APIKeyFile)
	read(err)
	s.StateKeys, err = keys("amqp.state_key_file", cfg.AMQP.StateKeyFile, schemas.ParseStateKeys)
	read(err)
	s.HashKeys, err = keys("redact.hash_key_file", cfg.Redact.HashKeyFile, privacy.ParseHashKeys)
	read(err)
	s.Originals, err = keys("redact.original_keys_file", cfg.Redact.OriginalKeysFile, privacy.ParseKeys)
	read(err)
	return s, errors.Join(mistakes...)
}

// TraceHeaders reads the headers of requests to the collector of traces, one NAME: VALUE a line; none if no file is named.
// Read leaves them out: only a process that exports needs the right to read them.
func TraceHeaders(file string) (map[string]string, error) {
	const key = "traces.headers_file"
	text, err := Content(key, file)
	if err != nil || file == "" {
		return nil, err
	}
	all := map[string]string{}
	for n, line := range strings.Split(strings.TrimRight(string(text), "\r\n"), "\n") {
		name, value, found := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !found || !requestheader.IsToken(name) || value == "" {
			return nil, fmt.Errorf("%s: %s: line %d: expected NAME: VALUE", key, file, n+1)
		}
		all[name] = value
	}
	return all, nil
}

// keys reads the keys of a setting; none if no file is named.
func keys[T any](setting, file string, parse func([]byte) (T, error)) (none T, err error) {
	text, err := Content(setting, file)
	if err != nil || file == "" {
		return none, err
	}
	parsed, err := parse(text)
	if err != nil {
		return none, fmt.Errorf("%s: %s: %w", setting, file, err)
	}
	return parsed, nil
}

// Webhooks reads the secrets that sign the requests of routes, by queue. Only
// the process that calls the handlers needs these files.
func Webhooks(routes []config.Route) (map[string][][]byte, error) {
	secrets := map[string][][]byte{}
	var mistakes []error
	for i, r := range routes {
		file := r.Handler.HTTP.SecretFile
		if file == "" {
			continue
		}
		key := fmt.Sprintf("routes[%d].handler.http.secret_file", i)
		text, err := Content(key, file)
		if err != nil {
			mistakes = append(mistakes, err)
		} else if secrets[r.Queue], err = webhook.ParseSecrets(text); err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s: %s: %w", key, file, err))
		}
	}
	return secrets, errors.Join(mistakes...)
}

// Text returns the text of a file without the line break at its end, or "" if no
// file is named. Its errors name the key of the setting.
func Text(key, file string) (string, error) {
	text, err := Content(key, file)
	if err != nil || file == "" {
		return "", err
	}
	trimmed := strings.TrimRight(string(text), "\r\n")
	if trimmed == "" {
		return "", fmt.Errorf("%s: %s is empty: write the secret into it", key, file)
	}
	return trimmed, nil
}

// Content returns the content of a file, or nil if no file is named.
func Content(key, file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	content, err := os.ReadFile(file)
	var path *fs.PathError
	if errors.As(err, &path) {
		return nil, fmt.Errorf("%s: %s: %w", key, file, path.Err)
	}
	return content, err
}

// addPassword adds the password to the login of amqp.url, which the configuration has checked, and
// to the login of the management API if it is the same.
func addPassword(amqp *config.AMQP, password string) error {
	broker, err := url.Parse(amqp.URL.Reveal())
	if err != nil {
		return fmt.Errorf("amqp.url %s cannot be read", amqp.URL)
	}
	login := broker.User.Username()
	amqp.URL = withLogin(broker, login, password, amqp.URL.Nodes())
	management, err := url.Parse(amqp.ManagementURL.Reveal())
	if err != nil {
		return fmt.Errorf("amqp.management_url %s cannot be read", amqp.ManagementURL)
	}
	if _, has := management.User.Password(); !has && (management.User == nil || management.User.Username() == login) {
		amqp.ManagementURL = withLogin(management, login, password, amqp.ManagementURL.Nodes())
	}
	return nil
}

func withLogin(u *url.URL, login, password string, nodes []string) config.URL {
	u.User = url.UserPassword(login, password)
	return config.NewURL(u.String(), nodes...)
}

// TLS reads the certificates of a setting, whose key its errors name; nil if no file
// is named.
func TLS(key string, files config.TLS) (*tls.Config, error) {
	if files == (config.TLS{}) {
		return nil, nil
	}
	conf, err := tlsfiles.Load(
		tlsfiles.File{Setting: key + ".ca", Path: files.CA},
		tlsfiles.File{Setting: key + ".cert", Path: files.Cert},
		tlsfiles.File{Setting: key + ".key", Path: files.Key},
	)
	if err != nil {
		return nil, fmt.Errorf("%w", err)
	}
	return conf, nil
}
