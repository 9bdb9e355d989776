// Package brokertest is one suite of named behaviours that every broker Watership
// runs on has to show: the embedded one and real RabbitMQs. Where they differ, the
// real one is right; where RabbitMQ 3.10 and 4 differ, 4 is, and the case says so.
package brokertest

import (
	"net"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Target is a broker to run the suite against. The suite makes queues and
// exchanges with names of their own, and deletes them.
type Target struct {
	URL  string
	Dial func(network, addr string) (net.Conn, error) // nil: TCP
}

// behaviour is one case of the suite.
type behaviour struct {
	name  string
	since string // the RabbitMQ that began to behave so, such as "4"; "" for any
	check func(p *probe)
}

// Run runs the suite.
func Run(t *testing.T, target Target) {
	version := target.version(t)
	for _, group := range []struct {
		name string
		all  []behaviour
	}{
		{"exchanges", exchanges()},
		{"queues", queues()},
		{"limits", limits()},
		{"dead letters", deadLetters()},
		{"publishing", publishing()},
		{"consuming", consuming()},
		{"acknowledging", acknowledging()},
		{"replies", replies()},
		{"transactions", transactions()},
		{"types", types()},
		{"errors", errorCases()},
		{"frames", frames()},
		{"handshake", handshakes()},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, b := range group.all {
				t.Run(b.name, func(t *testing.T) { b.run(t, target, version) })
			}
		})
	}
}

func (b behaviour) run(t *testing.T, target Target, version string) {
	t.Parallel()
	if b.since == "4" && strings.HasPrefix(version, "3.") {
		t.Skipf("RabbitMQ %s behaves otherwise; the embedded broker follows 4", version)
	}
	b.check(newProbe(t, target))
}

func (target Target) version(t *testing.T) string {
	conn := target.connect(t, amqp.Config{})
	defer conn.Close()
	version, _ := conn.Properties["version"].(string)
	return version
}

func (target Target) connect(t testing.TB, cfg amqp.Config) *amqp.Connection {
	t.Helper()
	cfg.Dial = target.Dial
	conn, err := amqp.DialConfig(target.URL, cfg)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	return conn
}
