package server_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
)

// Connections that were answered and then say nothing end, so that those which wait
// for a place are answered too.
func TestIdleConnectionsOfTheListenerEnd(t *testing.T) {
	t.Parallel() // most of it is waiting
	i := servertest.Around(t, rabbittest.Embedded(t)).Install(t, "http://127.0.0.1:1/")
	i.Serve(t)
	var asking sync.WaitGroup
	for range 2 * 64 { // more than the server serves at once
		asking.Go(func() {
			for deadline := time.Now().Add(time.Minute); ; {
				err := askAndWait(i.Listen)
				if err == nil {
					return
				}
				if !errors.Is(err, errNotAnswered) || time.Now().After(deadline) {
					t.Error(err)
					return
				}
			}
		})
	}
	asking.Wait()
}

// errNotAnswered is of a connection that the server has ended for a newer one before its request
// was read. HTTP clients send such a request again.
var errNotAnswered = errors.New("the connection ended without an answer")

// askAndWait returns once the server ends the connection, and fails where it does not.
func askAndWait(address string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	if _, err := fmt.Fprint(conn, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		return err
	}
	answer, err := io.ReadAll(conn)
	if len(answer) == 0 && (err == nil || errors.Is(err, syscall.ECONNRESET)) {
		return errNotAnswered
	}
	if err != nil {
		return fmt.Errorf("an idle connection stays: %w", err)
	}
	if !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") {
		return fmt.Errorf("got %q", answer)
	}
	return nil
}
