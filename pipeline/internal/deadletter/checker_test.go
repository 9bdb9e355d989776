package deadletter

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/schemas"
)

// managementAPI answers for each queue but "slow", about which nothing answers.
type managementAPI struct{ requests atomic.Int32 }

// RoundTrip implements http.RoundTripper.
func (m *managementAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	m.requests.Add(1)
	queue := path.Base(r.URL.Path)
	if queue == "slow" {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	body := `{"name": "` + queue + `", "arguments": {"x-dead-letter-exchange": "of ` + queue + `"}}`
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func newChecker(t *testing.T) (*Checker, *managementAPI) {
	t.Helper()
	api := &managementAPI{}
	discovery, err := topology.NewDiscovery("http://guest:guest@management", "/", &http.Client{Transport: api})
	if err != nil {
		t.Fatal(err)
	}
	return &Checker{Topology: schemas.Topology{}, Discovery: discovery}, api
}

// Dead letters of a queue do not wait for what the management API says of another one.
func TestASlowAnswerDelaysNoOtherQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newChecker(t)
		slow, others := make(chan struct{}), make(chan string, 2)
		go func() {
			defer close(slow)
			d.exchangeOf(t.Context(), "slow")
		}()
		synctest.Wait()
		for _, queue := range []string{"a", "b"} {
			go func() {
				exchange, _ := d.exchangeOf(t.Context(), queue)
				others <- exchange
			}()
		}
		synctest.Wait()
		if len(others) != 2 {
			t.Errorf("%d of 2 queues have an answer while another one waits for its own", len(others))
		}
		<-slow
		synctest.Wait()
		for range 2 {
			if exchange := <-others; exchange != "of a" && exchange != "of b" {
				t.Error(exchange)
			}
		}
		if exchange, known := d.exchangeOf(t.Context(), "a"); !known || exchange != "of a" {
			t.Errorf("an answer is forgotten while the management API is silent: %q", exchange)
		}
		if _, known := d.exchangeOf(t.Context(), "c"); known {
			t.Error("the management API is asked right after it did not answer")
		}
	})
}

// Dead letters of one queue share a request. One that is no longer handled ends it for itself alone.
func TestDeadLettersShareARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, api := newChecker(t)
		first, end := context.WithCancelCause(t.Context())
		done := make(chan struct{}, 2)
		for _, ctx := range []context.Context{first, t.Context()} {
			go func() {
				d.exchangeOf(ctx, "slow")
				done <- struct{}{}
			}()
			synctest.Wait()
		}
		if n := api.requests.Load(); n != 1 {
			t.Errorf("%d requests", n)
		}
		end(errors.New("the connection is lost"))
		synctest.Wait()
		if n := api.requests.Load(); n != 2 || len(done) != 1 {
			t.Errorf("%d requests, and %d have ended, after the first one was no longer handled", n, len(done))
		}
		<-done
		<-done
	})
}
