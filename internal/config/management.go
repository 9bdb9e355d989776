package config

import (
	"net"
	"net/url"
)

// managementURL returns the default URL of RabbitMQ's HTTP API: on the host of the
// broker, with the same login.
func managementURL(amqp URL) URL {
	from, err := url.Parse(amqp.full)
	if err != nil || from.Hostname() == "" {
		return URL{}
	}
	scheme, port := "http", "15672"
	if from.Scheme == "amqps" {
		scheme, port = "https", "15671"
	}
	to := url.URL{Scheme: scheme, User: from.User, Host: net.JoinHostPort(from.Hostname(), port)}
	return URL{to.String()}
}
