package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Clients that send half a request, however many, keep nobody from being served, and end no
// request that is under way, such as a check that waits for the store.
func TestSlowConnections(t *testing.T) {
	listener, err := listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	begun, end := make(chan struct{}), make(chan struct{})
	asks := make(chan struct{}, 10)
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", healthHandler(func(context.Context) error { return nil }, nil))
	mux.Handle("GET /readyz", healthHandler(func(context.Context) error {
		asks <- struct{}{}
		<-end
		return nil
	}, nil))
	mux.Handle("GET /stream", keepConnection(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-end
		_, _ = io.WriteString(w, "ended")
	})))
	server := newHTTPServer(mux)
	server.ReadHeaderTimeout, server.ReadTimeout, server.WriteTimeout, server.IdleTimeout = 0, 0, 0, 0 // nothing else ends a connection
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	address := listener.Addr().String()

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	get := func(path string) (string, error) {
		client := http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			return "", err
		}
		response, err := client.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return string(body), err
	}
	answers := map[string]chan string{"/stream": make(chan string, 1), "/readyz": make(chan string, 1)}
	for path, answer := range answers {
		go func() {
			text, err := get(path)
			if err != nil {
				text = err.Error()
			}
			answer <- text
		}()
	}
	<-begun
	<-asks
	for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		for range 200 {
			conn, err := dialer.DialContext(ctx, "tcp", address)
			if err != nil {
				t.Skipf("%s: %v", from, err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ")
		}
	}
	for range 20 {
		if text, err := get("/healthz"); err != nil || text != "ok\n" {
			t.Fatalf("%q, %v", text, err)
		}
	}
	limited := listener.(*connections)
	limited.mu.Lock()
	if n := len(limited.open); n > listenConnections {
		t.Errorf("%d connections are open", n)
	}
	limited.mu.Unlock()
	close(end)
	for path, want := range map[string]string{"/stream": "ended", "/readyz": "ok\n"} {
		if text := <-answers[path]; text != want {
			t.Errorf("%s: %s", path, text)
		}
	}
}

// Requests for the health at the same time ask the servers once.
func TestHealthChecksAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		handler := healthHandler(func(ctx context.Context) error {
			asked++
			<-ctx.Done()
			return errors.New("the store does not answer")
		}, nil)
		var requests sync.WaitGroup
		for range 20 {
			requests.Go(func() {
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
				if answer.Code != http.StatusServiceUnavailable || answer.Body.String() != "the store does not answer\n" {
					t.Errorf("%d, %s", answer.Code, answer.Body)
				}
			})
		}
		requests.Wait()
		if asked != 1 {
			t.Errorf("20 requests asked %d times", asked)
		}
	})
}
