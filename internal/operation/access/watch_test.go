package access

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// A stream ends when its token is revoked, and not before.
func TestStreamsEndWithTheirToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file, secrets := newTokens(t)
		g, err := New(Config{Logger: slog.New(slog.DiscardHandler), Recorder: &records{}, Tokens: file})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		stream := g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			ended <- context.Cause(r.Context())
		}))
		r := httptest.NewRequest(http.MethodGet, "/tail", nil)
		r.Header.Set("Authorization", "Bearer "+secrets["viewer"])
		go stream.ServeHTTP(httptest.NewRecorder(), r)
		time.Sleep(10 * recheckInterval)
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("ended: %v", err)
		default:
		}
		if err := file.Revoke("viewer"); err != nil {
			t.Fatal(err)
		}
		revoked := time.Now()
		if err := <-ended; statusOf(err) != http.StatusUnauthorized || time.Since(revoked) > recheckInterval {
			t.Errorf("ended after %s: %v", time.Since(revoked), err)
		}
	})
}
