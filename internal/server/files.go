package server

import (
	"errors"

	"github.com/watershipmq/watership/internal/operate/alerts/receiver"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/routeconfig"
)

// CheckFiles opens the files that serve opens at its start, and returns every mistake in them.
// The files of RabbitMQ and the store were read before.
func CheckFiles(sys *system.System) error {
	settings := sys.Settings()
	_, routes := routeconfig.Read(settings.Routes, settings.Roles)
	_, receivers := receiver.New(settings.Alerts.Receivers)
	_, keys := sessionKeys(settings.HTTP.Auth.SessionKeyFile)
	_, certificate := serverTLS(settings.HTTP.TLS, sys.Logger())
	var tokens, provider error
	if file := settings.HTTP.Auth.TokensFile; file != "" {
		_, tokens = access.OpenTokenFile(file).List()
	}
	if !settings.HTTP.Auth.OIDC.Issuer.IsZero() {
		_, provider = oidcOf(settings.HTTP.Auth.OIDC)
	}
	return errors.Join(routes, receivers, tokens, keys, provider, certificate)
}
