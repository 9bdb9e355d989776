package server

import (
	"errors"

	"github.com/watershipmq/watership/internal/operate/alerts"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/routeconfig"
)

// Check returns every mistake, as InputErrors, for which a server with the settings of a System does not
// start, and which is found without asking another server: in files that the settings name, and in the
// queries and templates of alerts. The files of RabbitMQ and the store were read with the System.
func Check(sys *system.System) error {
	settings := sys.Settings()
	_, routes := routeconfig.Read(settings.Routes, settings.Roles)
	if routes != nil {
		routes = system.InputError{Err: routes}
	}
	_, rules := (alerts.Service{System: sys}).Role()
	_, guard := guardConfig(settings.HTTP)
	_, certificate := serverTLS(settings.HTTP.TLS, sys.Logger())
	return errors.Join(routes, rules, guard, certificate)
}
