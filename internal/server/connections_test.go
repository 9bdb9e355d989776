package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// Clients that send half a request, however many, keep nobody from being served, and end no
// request that is under way.
func TestSlowConnections(t *testing.T) {
	listener, err := listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	begun, end := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
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
	stream := make(chan string, 1)
	go func() {
		text, err := get("/stream")
		if err != nil {
			text = err.Error()
		}
		stream <- text
	}()
	<-begun
	for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		for range 200 {
			conn, err := dialer.DialContext(ctx, "tcp", address)
			if err != nil {
				t.Skipf("%s: %v", from, err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			_, _ = io.WriteString(conn, "GET /readyz HTTP/1.1\r\nHost: localhost\r\nX: ")
		}
	}
	for range 20 {
		if text, err := get("/readyz"); err != nil || text != "ok" {
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
	if text := <-stream; text != "ended" {
		t.Errorf("the stream: %s", text)
	}
}
