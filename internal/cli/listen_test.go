package cli

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// Connections that were answered and then say nothing end, so that those which wait
// for a place are answered too.
func TestIdleConnectionsOfTheListenerEnd(t *testing.T) {
	i := around(t, rabbittest.Embedded(t)).install(t, "http://127.0.0.1:1/")
	i.serve(t)
	var asking sync.WaitGroup
	for range listenConnections + 10 {
		asking.Go(func() {
			if err := askAndWait(i.listen); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
}

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
	if err != nil {
		return fmt.Errorf("an idle connection stays: %w", err)
	}
	if !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") {
		return fmt.Errorf("got %q", answer)
	}
	return nil
}

// A client that sends requests and reads no answer is cut off.
func TestClientsOfTheListenerThatReadNothingEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe() // without buffers: the first answer is not written
		server := newListenServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		}))
		go func() { _ = server.Serve(&oneConnection{conn: ours, closed: make(chan struct{})}) }()
		defer server.Close()
		if _, err := fmt.Fprint(theirs, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * listenTimeout)
		if _, err := io.Copy(io.Discard, theirs); err != nil {
			t.Error(err)
		}
		if _, err := fmt.Fprint(theirs, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err == nil {
			t.Error("the connection is still served")
		}
	})
}

// oneConnection is a listener with a single connection.
type oneConnection struct {
	conn   net.Conn
	given  atomic.Bool
	closed chan struct{}
}

func (l *oneConnection) Accept() (net.Conn, error) {
	if l.given.CompareAndSwap(false, true) {
		return l.conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneConnection) Close() error   { close(l.closed); return nil }
func (l *oneConnection) Addr() net.Addr { return l.conn.LocalAddr() }
