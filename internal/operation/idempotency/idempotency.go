// Package idempotency gives repeated requests and calls the response of the first one.
package idempotency

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"sync"
	"time"
)

// Header is the header of requests with a key, as an Internet-Draft of the IETF
// (draft-ietf-httpapi-idempotency-key-header) describes it.
const Header = "Idempotency-Key"

// Responses remembers the responses to requests with a key.
type Responses struct {
	age   time.Duration
	other http.Handler

	mu    sync.Mutex // guards the fields below
	byKey map[string]*repeat
	keys  []string // oldest first
}

// maxKeys bounds the responses that are remembered.
const maxKeys = 10_000

// New returns Responses that are remembered up to an age. Requests with the key of
// another one go to other.
func New(age time.Duration, other http.Handler) *Responses {
	return &Responses{age: age, other: other, byKey: map[string]*repeat{}}
}

// repeat is the first request with a key. done is closed when its response is known.
type repeat struct {
	digest string
	began  time.Time
	done   chan struct{}
	result any  // after done
	kept   bool // likewise
}

// Digest returns a digest of some texts. None of them can be read from it.
func Digest(texts ...string) string {
	hash := sha256.New()
	for _, text := range texts {
		part := sha256.Sum256([]byte(text))
		hash.Write(part[:])
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// Serve passes on the first request with a key, and gives repeated ones its response. A
// request that failed is not remembered: it can be repeated. digest is the digest
// of the request's content.
func (r *Responses) Serve(w http.ResponseWriter, request *http.Request, key, digest string, next http.Handler) {
	response, err := r.Do(request.Context(), key, digest, func() (any, bool) {
		made := &bufferedResponse{header: http.Header{}}
		next.ServeHTTP(made, request)
		return made, made.status < http.StatusMultipleChoices
	})
	switch {
	case errors.Is(err, ErrOther):
		r.other.ServeHTTP(w, request)
	case err == nil:
		response.(*bufferedResponse).writeTo(w)
	}
}

// ErrOther is returned for a request with the key of another one.
var ErrOther = errors.New("the key is of another request")

// Do acts for the first request with a key, and returns its result to repeated ones, unless it
// has failed.
func (r *Responses) Do(ctx context.Context, key, digest string, act func() (result any, done bool)) (any, error) {
	for {
		first, mine := r.begin(key, digest)
		switch {
		case first.digest != digest:
			return nil, ErrOther
		case mine:
			return r.act(act, key, first), nil
		case !wait(ctx, first.done):
			return nil, ctx.Err()
		case first.kept:
			return first.result, nil
		}
	}
}

func wait(ctx context.Context, done chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// begin returns the first request with a key; mine if it is this one.
func (r *Responses) begin(key, digest string) (first *repeat, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.keys) > 0 && (len(r.keys) >= maxKeys || time.Since(r.byKey[r.keys[0]].began) > r.age) {
		delete(r.byKey, r.keys[0])
		r.keys = r.keys[1:]
	}
	if first := r.byKey[key]; first != nil {
		return first, false
	}
	first = &repeat{digest: digest, began: time.Now(), done: make(chan struct{})}
	r.byKey[key] = first
	r.keys = append(r.keys, key)
	return first, true
}

func (r *Responses) act(act func() (any, bool), key string, first *repeat) any {
	defer close(first.done)
	defer func() {
		if !first.kept {
			r.forget(key, first)
		}
	}()
	first.result, first.kept = act()
	return first.result
}

func (r *Responses) forget(key string, first *repeat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byKey[key] != first {
		return
	}
	delete(r.byKey, key)
	for i := range r.keys {
		if r.keys[i] == key {
			r.keys = append(r.keys[:i:i], r.keys[i+1:]...)
			return
		}
	}
}

// bufferedResponse is a response in memory.
type bufferedResponse struct {
	header http.Header
	status int // 0: not written yet
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (b *bufferedResponse) Header() http.Header { return b.header }

// WriteHeader implements http.ResponseWriter.
func (b *bufferedResponse) WriteHeader(status int) {
	if b.status == 0 {
		b.status = status
	}
}

// Write implements http.ResponseWriter.
func (b *bufferedResponse) Write(data []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	return b.body.Write(data)
}

// SetReadDeadline does nothing: the request was read.
func (b *bufferedResponse) SetReadDeadline(time.Time) error { return nil }

func (b *bufferedResponse) writeTo(w http.ResponseWriter) {
	for name, values := range b.header {
		w.Header()[name] = values
	}
	w.WriteHeader(max(b.status, http.StatusOK))
	_, _ = w.Write(b.body.Bytes())
}
