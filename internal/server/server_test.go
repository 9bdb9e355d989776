package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/pipeline"
)

// A client that sends requests and reads no answer is cut off.
func TestClientsOfTheListenerThatReadNothingEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe() // without buffers: the first answer is not written
		server := newHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
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

// askedStore is a store that answers when it is told to, and counts the questions.
type askedStore struct {
	system.EventStore
	asked  atomic.Int32
	answer chan struct{}
}

func (s *askedStore) Check(context.Context) error {
	s.asked.Add(1)
	<-s.answer
	return nil
}

// Scrapes at the same time ask the servers once, however many there are.
func TestScrapesAtOnce(t *testing.T) {
	const scrapes = 10
	a := systemtest.New(t, "WATERSHIP_AMQP_URL="+rabbittest.Embedded(t).URL)
	watching, err := a.Open("watching", false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = watching.Close() })
	store := &askedStore{answer: make(chan struct{})}
	handlers, err := pipeline.New(routes.Handlers(a))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended, end := context.WithCancel(context.Background())
		end()
		_ = handlers.Run(ended) // which closes its connections
	})
	s := &Server{System: a, settings: a.Settings(), registry: prometheus.NewRegistry(), index: indexRole{System: a, events: store}, handlers: handlers, audit: &auditor{System: a}}
	guard, err := s.newGuard(Faces{})
	if err != nil {
		t.Fatal(err)
	}
	served := s.routes(newGauges(s, watching), Faces{}, guard)
	var begun atomic.Int32
	var scraping sync.WaitGroup
	for range scrapes {
		scraping.Go(func() {
			begun.Add(1)
			answer := httptest.NewRecorder()
			served.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			if body := answer.Body.String(); !strings.Contains(body, `watership_server_up{server="store"} 1`) {
				t.Errorf("got %d: %s", answer.Code, body)
			}
		})
	}
	for begun.Load() < scrapes || store.asked.Load() == 0 {
		runtime.Gosched()
	}
	close(store.answer)
	scraping.Wait()
	if n := store.asked.Load(); n == scrapes {
		t.Errorf("%d scrapes have asked the store %d times", scrapes, n)
	}
}
