// Package rabbitmq says where RabbitMQ is, for all packages that connect to it:
//
//	at := rabbitmq.Connection{URL: "amqp://guest:guest@localhost:5672/", Name: "orders"}
//	p, err := pipeline.New(pipeline.Config{Connection: at, Routes: routes})
//	s := subscription.New(subscription.Config{Connection: at, Store: store, Source: "shop"})
package rabbitmq

import (
	"crypto/tls"
	"net"
)

// Connection is the way to a RabbitMQ or its cluster. Each connection connects again after it was lost.
type Connection struct {
	// URL is an AMQP URI (https://www.rabbitmq.com/docs/uri-spec), amqp or amqps, with RabbitMQ's query parameters such as
	// heartbeat and cacertfile.
	URL string

	// Nodes are further nodes of the cluster as host:port, to which the rest of URL applies. Each attempt to connect
	// tries them and the host of URL in random order.
	Nodes []string

	// TLS configures amqps. Nil: system roots, or the files named in the URL.
	TLS *tls.Config

	// Dial opens the byte stream to the broker, such as one through a proxy. Nil: TCP.
	Dial func(network, address string) (net.Conn, error)

	// Name begins the names of the connections on RabbitMQ's management page. "": watership.
	Name string

	// Instance is the value of "instance" that the broker's server-properties must have: a broker with another value is
	// refused. Only the embedded broker sends it. "": any broker.
	Instance string
}
