package rabbit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// managementServers are servers by address, without a network. A request to any other address is refused.
type managementServers map[string]http.HandlerFunc

func (s managementServers) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := s[r.URL.Host]
	if answer == nil {
		return nil, &net.OpError{Op: "dial", Err: fmt.Errorf("%s refused", r.URL.Host)}
	}
	recorded := httptest.NewRecorder()
	done := make(chan struct{})
	go func() { defer close(done); answer(recorded, r) }()
	select {
	case <-done:
		return recorded.Result(), nil
	case <-r.Context().Done():
		<-done
		return nil, r.Context().Err()
	}
}

func answering(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); _, _ = io.WriteString(w, body) }
}

// hanging accepts requests and answers none, as a node does that has lost the majority.
func hanging(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// A node that does not answer costs a bounded pause, and each later request none.
func TestManagementAsksAnotherNode(t *testing.T) {
	whoami := answering(http.StatusOK, `{"name":"guest"}`)
	for name, servers := range map[string]managementServers{
		"refused":  {"r3:15672": whoami},
		"hanging":  {"r1:15672": hanging, "r2:15672": hanging, "r3:15672": whoami},
		"starting": {"r1:15672": answering(503, "starting"), "r2:15672": answering(500, "timeout"), "r3:15672": whoami},
		"mixed":    {"r1:15672": hanging, "r3:15672": whoami},
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 { // in random order
				synctest.Test(t, func(t *testing.T) {
					m, err := NewManagement("http://guest:s3cret@r1:15672", &http.Client{Transport: servers, Timeout: time.Hour}, "r2:15672", "r3:15672")
					if err != nil {
						t.Fatal(err)
					}
					for i := range 3 {
						since := time.Now()
						if login, err := m.WhoAmI(t.Context()); err != nil || login.Name != "guest" {
							t.Fatal(login, err)
						}
						if took := time.Since(since); took > 2*nextManagementAfter || i > 0 && took > 0 {
							t.Errorf("request %d took %s", i, took)
						}
					}
				})
			}
		})
	}
}

// Requests that end before a second node is asked find the one that answers: each begins with another node.
func TestManagementOfHastyRequests(t *testing.T) {
	for range 5 { // in random order
		synctest.Test(t, func(t *testing.T) {
			servers := managementServers{"r1:15672": hanging, "r2:15672": hanging, "r3:15672": answering(http.StatusOK, `{"name":"guest"}`)}
			m, err := NewManagement("http://guest:s3cret@r1:15672", &http.Client{Transport: servers}, "r2:15672", "r3:15672")
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), nextManagementAfter/2)
				_, err = m.WhoAmI(ctx)
				cancel()
			}
			if err != nil {
				t.Error("the third request failed as well:", err)
			}
		})
	}
}

// Nodes that all hang end a request at its time, and an answer that refuses it is an answer.
func TestManagementOfNoNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := managementServers{"r1:15672": hanging}
		m, err := NewManagement("http://guest:s3cret@r1:15672/", &http.Client{Transport: servers}, "r2:15672")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = m.WhoAmI(ctx)
		if text := fmt.Sprint(err); err == nil || strings.Contains(text, "s3cret") || !strings.Contains(text, "http://r1:15672, http://r2:15672") {
			t.Error(err)
		}
		servers["r2:15672"] = answering(http.StatusNotFound, "")
		if _, err := m.Queue(t.Context(), "/", "none"); err == nil || !strings.Contains(err.Error(), ErrNotFound.Error()) {
			t.Error(err)
		}
	})
}

// Each address of a name is a node, whose certificate is for the name.
func TestManagementOfANameWithAddresses(t *testing.T) {
	for scheme, start := range map[string]func(http.Handler) *httptest.Server{"http": httptest.NewServer, "https": httptest.NewTLSServer} {
		t.Run(scheme, func(t *testing.T) {
			var host string
			server := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				host = r.Host
				answering(http.StatusOK, `{"name":"guest"}`)(w, r)
			}))
			defer server.Close()
			at, err := url.Parse(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			trust := server.Client().Transport.(*http.Transport).TLSClientConfig
			client := ManagementClient(trust, nil)
			defer client.CloseIdleConnections()
			m, err := NewManagement(scheme+"://example.com:"+at.Port(), client)
			if err != nil {
				t.Fatal(err)
			}
			m.lookup = func(context.Context, string) ([]string, error) { return []string{"127.0.0.3", "127.0.0.1"}, nil }
			if login, err := m.WhoAmI(t.Context()); err != nil || login.Name != "guest" || host != "example.com:"+at.Port() {
				t.Error(login, host, err)
			}
		})
	}
}

// A change is sent to another node only if the first got nothing of it, or says that it failed.
func TestManagementChangesOnce(t *testing.T) {
	gone := answering(http.StatusNotFound, "")
	slow := func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(3 * nextManagementAfter)
		w.WriteHeader(http.StatusNoContent)
	}
	for name, c := range map[string]struct {
		first  http.HandlerFunc // nil: it refuses the connection
		second http.HandlerFunc
		want   error
		sent   int64 // to the second
	}{
		"slow":              {slow, gone, nil, 0},
		"done in part":      {answering(http.StatusInternalServerError, "timeout"), gone, nil, 1},
		"refused":           {nil, answering(http.StatusNoContent, ""), nil, 1},
		"refused, and none": {nil, gone, ErrNotFound, 1},
		"hanging":           {hanging, gone, ErrNoAnswer, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent atomic.Int64
				servers := managementServers{"r1:15672": c.first, "r2:15672": func(w http.ResponseWriter, r *http.Request) { sent.Add(1); c.second(w, r) }}
				m, err := NewManagement("http://guest:s3cret@r1:15672", &http.Client{Transport: servers, Timeout: managementTimeout}, "r2:15672")
				if err != nil {
					t.Fatal(err)
				}
				m.first.Store(&m.nodes[0])
				if err := m.DeletePolicy(t.Context(), "/", "p"); !errors.Is(err, c.want) || sent.Load() != c.sent {
					t.Errorf("got %v, and the second node got %d requests; want %v and %d", err, sent.Load(), c.want, c.sent)
				}
			})
		})
	}
}

// The address of a name that answered last is asked first.
func TestManagementRemembersAnAddress(t *testing.T) {
	server := httptest.NewServer(answering(http.StatusOK, `{"name":"guest"}`))
	defer server.Close()
	var silent atomic.Int64
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasPrefix(address, "127.0.0.3:") {
			silent.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}, Proxy: http.ProxyFromEnvironment}
	defer transport.CloseIdleConnections()
	m, err := NewManagement("http://example.com:15672", &http.Client{Transport: systemTransport{transport}})
	if err != nil {
		t.Fatal(err)
	}
	m.lookup = func(context.Context, string) ([]string, error) { return []string{"127.0.0.3", "127.0.0.1"}, nil }
	for range 2 {
		if _, err := m.WhoAmI(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if silent.Load() > 1 {
		t.Errorf("the address that does not answer was asked %d times, want once", silent.Load())
	}
}

// A request to a node that answers waits for the lookup of no other name, and the names of others are looked up
// at once.
func TestManagementLooksUpNoNameInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan string, 100)
		transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
			client, server := net.Pipe()
			go serveOnce(server, strings.HasPrefix(address, "r1:"))
			return client, nil
		}, DisableKeepAlives: true}
		m, err := NewManagement("http://r1:15672", &http.Client{Transport: systemTransport{transport}}, "r2:15672", "r3:15672", "r4:15672")
		if err != nil {
			t.Fatal(err)
		}
		m.lookup = func(ctx context.Context, host string) ([]string, error) {
			asked <- host
			if host != "r1" {
				<-ctx.Done()
			}
			return nil, ctx.Err()
		}
		m.first.Store(&m.nodes[0])
		for range 3 {
			since := time.Now()
			if _, err := m.WhoAmI(t.Context()); err != nil || time.Since(since) > 0 {
				t.Errorf("a request took %s: %v", time.Since(since), err)
			}
		}
		for len(asked) > 0 {
			if host := <-asked; host != "r1" {
				t.Errorf("%s was looked up", host)
			}
		}
		m.first.Store(&m.nodes[1])
		since := time.Now()
		if _, err := m.WhoAmI(t.Context()); err != nil || time.Since(since) > 2*lookupTimeout+nextManagementAfter {
			t.Errorf("a request to nodes of unknown addresses took %s: %v", time.Since(since), err)
		}
	})
}

// serveOnce answers a request, or closes the connection.
func serveOnce(conn net.Conn, answers bool) {
	defer conn.Close()
	if !answers {
		return
	}
	if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"name\":\"guest\"}")
	}
}
