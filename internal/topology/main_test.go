package topology

import (
	"testing"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

func connection(t testing.TB, b rabbittest.Broker) *rabbit.Connection {
	t.Helper()
	conn, err := rabbit.Open(rabbit.Config{URL: b.URL, Name: t.Name(), LargeFrames: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
