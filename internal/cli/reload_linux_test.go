package cli

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/server/servertest"
)

// SIGHUP ends serve neither before it runs, when it reloads later, nor while it stops.
func TestHangupsAtStartAndStop(t *testing.T) {
	t.Parallel()
	called, release := make(chan struct{}), make(chan struct{})
	service := servertest.NewService(t, func(servertest.Post, int) int {
		close(called)
		<-release
		return http.StatusOK
	})
	i := servertest.InstallEmbedded(t, service.URL)
	keys, key := filepath.Join(t.TempDir(), "keys"), strings.Repeat("k", 32)
	if err := syscall.Mkfifo(keys, 0o600); err != nil {
		t.Fatal(err)
	}
	i.Environ = append(os.Environ(), "WATERSHIP_HTTP_AUTH_SESSION_KEY_FILE="+keys)
	p := i.Start(t)
	signalTo := func(signal os.Signal) {
		t.Helper()
		if err := p.Cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	pipe, err := os.OpenFile(keys, os.O_WRONLY, 0) // once serve, which starts, reads it
	if err != nil {
		t.Fatal(err)
	}
	signalTo(syscall.SIGHUP)
	if err := os.Remove(keys); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keys, []byte(key), 0o600); err != nil { // for the next time that it is read
		t.Fatal(err)
	}
	if _, err := pipe.WriteString(key); err != nil && !errors.Is(err, syscall.EPIPE) { // the wait below tells more
		t.Fatal(err)
	}
	_ = pipe.Close()
	servertest.Until(t, "serve to reload", func() bool { return strings.Contains(p.Logs.String(), `msg="configuration reloaded"`) })

	if err := i.Broker.Channel(t).Publish(i.Exchange, "k", false, false, amqp.Publishing{MessageId: "slow", Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	<-called
	const stopped = `msg="Subscriber stopped"`
	before := strings.Count(p.Logs.String(), stopped)
	signalTo(syscall.SIGTERM)
	servertest.Until(t, "serve to stop consumers", func() bool { return strings.Count(p.Logs.String(), stopped) > before })
	signalTo(syscall.SIGHUP)
	close(release)
	p.WantEnd(t)
}
