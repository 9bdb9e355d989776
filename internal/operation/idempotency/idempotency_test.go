package idempotency_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watershipmq/watership/internal/operation/idempotency"
)

// counting answers with the number of its requests, and a status.
type counting struct {
	requests int
	status   int
}

func (c *counting) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	c.requests++
	w.Header().Set("Location", "/there")
	w.WriteHeader(c.status)
	_, _ = w.Write([]byte(strconv.Itoa(c.requests)))
}

var conflict = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) })

func send(r *idempotency.Responses, key, digest string, next http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r.Serve(w, httptest.NewRequest(http.MethodPost, "/", nil), key, digest, next)
	return w
}

func TestARepeatedRequestGetsTheFirstResponse(t *testing.T) {
	r, next := idempotency.New(time.Hour, conflict), &counting{status: http.StatusCreated}
	for range 2 {
		if w := send(r, "key", "digest", next); w.Code != http.StatusCreated || w.Body.String() != "1" || w.Header().Get("Location") != "/there" {
			t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
		}
	}
	if next.requests != 1 {
		t.Errorf("%d requests were passed on", next.requests)
	}
}

func TestAnotherKeyIsAnotherRequest(t *testing.T) {
	r, next := idempotency.New(time.Hour, conflict), &counting{status: http.StatusOK}
	send(r, "key", "digest", next)
	if w := send(r, "another", "digest", next); w.Body.String() != "2" {
		t.Errorf("%s", w.Body)
	}
}

func TestAKeyOfAnotherRequestIsRefused(t *testing.T) {
	r, next := idempotency.New(time.Hour, conflict), &counting{status: http.StatusOK}
	send(r, "key", "digest", next)
	if w := send(r, "key", "another", next); w.Code != http.StatusConflict || next.requests != 1 {
		t.Errorf("%d, %d requests were passed on", w.Code, next.requests)
	}
}

func TestAFailedRequestCanBeRepeated(t *testing.T) {
	r, next := idempotency.New(time.Hour, conflict), &counting{status: http.StatusServiceUnavailable}
	send(r, "key", "digest", next)
	next.status = http.StatusOK
	if w := send(r, "key", "digest", next); w.Code != http.StatusOK || w.Body.String() != "2" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestResponsesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, next := idempotency.New(time.Hour, conflict), &counting{status: http.StatusOK}
		send(r, "key", "digest", next)
		time.Sleep(time.Hour)
		if w := send(r, "key", "digest", next); w.Body.String() != "1" {
			t.Errorf("within the hour: %s", w.Body)
		}
		time.Sleep(time.Second)
		if w := send(r, "key", "digest", next); w.Body.String() != "2" {
			t.Errorf("after it: %s", w.Body)
		}
	})
}

func TestARepeatedRequestWaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, next := idempotency.New(time.Hour, conflict), &counting{status: http.StatusOK}
		slow := http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			time.Sleep(time.Minute)
			next.ServeHTTP(w, request)
		})
		first := make(chan string)
		go func() { first <- send(r, "key", "digest", slow).Body.String() }()
		synctest.Wait()
		if w := send(r, "key", "digest", slow); w.Body.String() != "1" || next.requests != 1 {
			t.Errorf("%s after %d requests", w.Body, next.requests)
		}
		if got := <-first; got != "1" {
			t.Errorf("the first one got %s", got)
		}
	})
}

func TestAClientThatHasGoneWaitsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, release := idempotency.New(time.Hour, conflict), make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			send(r, "key", "digest", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
		}()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w := httptest.NewRecorder()
		r.Serve(w, httptest.NewRequest(http.MethodPost, "/", nil).WithContext(ctx), "key", "digest", conflict)
		if w.Body.Len() > 0 || w.Code == http.StatusConflict {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		close(release)
		<-ended
	})
}

func TestDigestsDependOnEachText(t *testing.T) {
	if idempotency.Digest("ab", "c") == idempotency.Digest("a", "bc") {
		t.Error("texts are joined")
	}
	if first, second := idempotency.Digest("a", "b"), idempotency.Digest("a", "b"); first != second {
		t.Error("equal texts have two digests")
	}
}
