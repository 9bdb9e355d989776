package doctor

import (
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/watershipmq/watership/internal/config"
)

// Exposures finds files with secrets that every user may read, passwords that travel in
// clear, and the default login of RabbitMQ at a broker that others reach.
func Exposures(cfg config.Config) []Finding {
	var found findingList
	warn := func(code Code, detail, remedy string) { found.report(code, Warning, detail, remedy) }
	files := map[string]string{
		"amqp.password_file": cfg.AMQP.PasswordFile, "amqp.tls.key": cfg.AMQP.TLS.Key,
		"amqp.state_key_file":  cfg.AMQP.StateKeyFile,
		"redact.hash_key_file": cfg.Redact.HashKeyFile, "redact.original_keys_file": cfg.Redact.OriginalKeysFile, "redact.subject_keys_file": cfg.Redact.SubjectKeysFile,
		"token_file":   cfg.Server.TokenFile,
		"http.tls.key": cfg.HTTP.TLS.Key, "http.auth.session_key_file": cfg.HTTP.Auth.SessionKeyFile,
		"http.auth.oidc.client_secret_file": cfg.HTTP.Auth.OIDC.ClientSecretFile,
		"store.password_file":               cfg.Store.PasswordFile, "store.api_key_file": cfg.Store.APIKeyFile, "store.tls.key": cfg.Store.TLS.Key,
	}
	for i, r := range cfg.Routes {
		files[fmt.Sprintf("routes[%d].handler.http.secret_file", i)] = r.Handler.HTTP.SecretFile
	}
	for key, file := range files {
		if ReadByAll(file) {
			warn(FileReadableByAll, fmt.Sprintf("%s: every user of this machine may read %s", key, file), "chmod 600 "+file)
		}
	}
	for _, address := range cfg.AMQP.URL.RevealAll() {
		broker, _ := url.Parse(address)
		if !travels(broker, "amqp") || broker.User.Username() == "" {
			continue
		}
		warn(SecretInClear, "amqp.url: the password travels in clear to "+broker.Host, "use amqps://")
		if password, _ := broker.User.Password(); broker.User.Username() == "guest" && password == "guest" {
			warn(DefaultLogin, "amqp.url: "+broker.Host+" has the login guest with its default password", "rabbitmqctl change_password guest PASSWORD, or rabbitmqctl delete_user guest")
		}
	}
	login := cfg.Store.Username != "" || cfg.Store.APIKeyFile != ""
	for _, address := range cfg.Store.URL.RevealAll() {
		if store, _ := url.Parse(address); travels(store, "http") && (login || store.User != nil) {
			warn(SecretInClear, "store.url: the login travels in clear to "+store.Host, "use https://")
		}
	}
	return found.findings
}

// ReadByAll reports whether every user may read a file. Container engines mount secrets
// with this mode, for the one user in the container, so these do not count.
func ReadByAll(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode()&(fs.ModeType|0o004) == 0o004 &&
		!strings.HasPrefix(file, "/run/secrets/") && !strings.HasPrefix(file, "/var/run/secrets/")
}

// travels reports whether a URL has a scheme without encryption and a host of another
// network. A host name without a dot is a container or a machine of the same network.
func travels(u *url.URL, scheme string) bool {
	if u == nil || u.Scheme != scheme {
		return false
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil {
		return !ip.IsLoopback()
	}
	return strings.Contains(u.Hostname(), ".")
}
