package breaker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/watershipmq/watership/retry"
)

// The errors of a handler in Go that asks a service over HTTP, which it passes on as
// they are.
func TestCauseOfFailedRequests(t *testing.T) {
	release := make(chan struct{})
	silent := serve(t, httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release })), false)
	t.Cleanup(func() { close(release) })
	closing := serve(t, httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })), false)
	resetting := serve(t, httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			err = errors.Join(conn.(*net.TCPConn).SetLinger(0), conn.Close())
		}
		if err != nil {
			t.Error(err)
		}
	})), false)
	untrusted := serve(t, httptest.NewUnstartedServer(http.NotFoundHandler()), true)
	demanding := httptest.NewUnstartedServer(http.NotFoundHandler())
	demanding.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	serve(t, demanding, true)
	const gone = "127.0.0.1:1"                    // nothing listens there
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // answers no TLS handshake
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deaf.Close() })

	nameless := &http.Transport{DialContext: (&net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no server of names")
	}}}).DialContext}
	impatient := &http.Transport{TLSHandshakeTimeout: 50 * time.Millisecond}
	for name, test := range map[string]struct {
		url       string
		transport *http.Transport
		want      Cause
	}{
		"refused":           {"http://" + gone, &http.Transport{}, Unavailable},
		"reset":             {resetting.URL, &http.Transport{}, Unavailable},
		"closed":            {closing.URL, &http.Transport{}, Unavailable},
		"no address":        {"http://shop.invalid", nameless, Unavailable},
		"unknown authority": {untrusted.URL, &http.Transport{}, Unavailable},
		"no certificate":    {demanding.URL, demanding.Client().Transport.(*http.Transport), Unavailable},
		"no TLS":            {"https://" + gone, &http.Transport{}, Unavailable},
		"TLS of no server":  {"https" + silent.URL[len("http"):], &http.Transport{}, Unavailable},
		"TLS time-out":      {"https://" + deaf.Addr().String(), impatient, TimedOut}, // the error does not differ
		"time-out":          {silent.URL, &http.Transport{ResponseHeaderTimeout: 50 * time.Millisecond}, TimedOut},
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(test.transport.CloseIdleConnections)
			response, err := (&http.Client{Transport: test.transport}).Post(test.url, "", nil)
			if err == nil {
				response.Body.Close()
				t.Fatal(response.Status)
			}
			if got := CauseOf(fmt.Errorf("asking the shop: %w", err)); got != test.want {
				t.Errorf("cause %d, want %d: %v", got, test.want, err)
			}
		})
	}
}

func serve(t *testing.T, s *httptest.Server, withTLS bool) *httptest.Server {
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if withTLS {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func TestCauseOfMarkedErrors(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for name, test := range map[string]struct {
		err  error
		want Cause
	}{
		"any":                     {errors.New("no such order"), MessageFailure},
		"end of a body":           {fmt.Errorf("reading the order: %w", io.EOF), MessageFailure},
		"deadline":                {context.DeadlineExceeded, TimedOut},
		"no file":                 {&net.OpError{Op: "dial", Err: syscall.EMFILE}, Exhausted},
		"unavailable":             {retry.Unavailable(errors.New("closed")), Unavailable},
		"unavailable until":       {retry.Unavailable(retry.After(time.Hour, errors.New("closed"))), Unavailable},
		"permanent":               {retry.Permanent(refused), DecidedByHandler},
		"permanent, unavailable":  {retry.Permanent(retry.Unavailable(refused)), DecidedByHandler},
		"at a time":               {retry.After(time.Hour, refused), DecidedByHandler},
		"not before a time":       {retry.AtLeast(time.Hour, refused), Unavailable},
		"answer, not before then": {retry.AtLeast(time.Hour, errors.New("too many requests")), MessageFailure},
		"class":                   {retry.Class("shop", refused), Unavailable},
	} {
		if got := CauseOf(test.err); got != test.want {
			t.Errorf("%s: cause %d, want %d", name, got, test.want)
		}
	}
}
