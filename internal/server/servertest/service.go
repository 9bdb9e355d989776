package servertest

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// Post is one request that the service of a test got.
type Post struct {
	ID      string
	Attempt string
	Body    []byte
	Header  http.Header
}

// Service is the HTTP service of a route.
type Service struct {
	URL string

	mu     sync.Mutex // guards what follows
	posts  map[string][]Post
	answer func(p Post, before int) int // status for a post, of a message that had this number of posts before
}

// NewService serves until the test ends. Answer returns the status of a post, of which there were
// before already.
func NewService(t *testing.T, answer func(p Post, before int) int) *Service {
	t.Helper()
	s := &Service{posts: map[string][]Post{}, answer: answer}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.URL = (&url.URL{Scheme: "http", Host: listener.Addr().String(), Path: "/"}).String()
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return s
}

// ServeHTTP keeps the post.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	if _, err := body.ReadFrom(r.Body); err != nil {
		return
	}
	p := Post{r.Header.Get("Watership-Message-Id"), r.Header.Get("Watership-Attempt"), body.Bytes(), r.Header}
	s.mu.Lock()
	status := s.answer(p, len(s.posts[p.ID]))
	s.posts[p.ID] = append(s.posts[p.ID], p)
	s.mu.Unlock()
	w.WriteHeader(status)
	if status != http.StatusOK {
		fmt.Fprint(w, "the runner has melted")
	}
}

// Mend lets the service succeed from now on, and forgets its requests.
func (s *Service) Mend() { s.AnswerAll(http.StatusOK) }

// AnswerAll lets the service answer with a status from now on, and forgets its requests.
func (s *Service) AnswerAll(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posts = map[string][]Post{}
	s.answer = func(Post, int) int { return status }
}

// Got returns the posts so far by the ids of their messages.
func (s *Service) Got() map[string][]Post {
	s.mu.Lock()
	defer s.mu.Unlock()
	copied := make(map[string][]Post, len(s.posts))
	for id, posts := range s.posts {
		copied[id] = append([]Post(nil), posts...)
	}
	return copied
}

// ServeHTTP serves a handler until the test ends, and returns its address.
func ServeHTTP(t *testing.T, handler http.Handler) string {
	t.Helper()
	address := rabbittest.FreeAddress(t)
	server := &http.Server{Addr: address, Handler: handler}
	go func() { _ = server.ListenAndServe() }()
	t.Cleanup(func() { _ = server.Close() })
	return fmt.Sprintf("http://%s/orders", address)
}

// Success answers each post with 200.
func Success(Post, int) int { return http.StatusOK }
