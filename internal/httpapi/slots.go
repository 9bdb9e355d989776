package httpapi

import (
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// Limits of requests under way. They leave connections of http.listen for health checks and
// metrics, and streams for other identities.
const (
	maxRequests  = 32
	maxStreams   = 16
	maxStreamsOf = 4 // of one identity
)

// slots counts the requests under way.
type slots struct {
	mu       sync.Mutex // guards the fields below
	requests int
	streams  int            // of the requests
	byCaller map[string]int // streams of each identity
}

// take takes a slot for a request of a caller, which give has to give back.
func (s *slots) take(caller access.Identity, isStream bool) *problem.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := callerKey(caller)
	switch {
	// Without authentication, all programs of the machine are one identity.
	case isStream && caller.Method != access.ByLoopback && s.byCaller[key] >= maxStreamsOf:
		return &problem.Problem{
			Code: code.RateLimited, Detail: "too many streams of " + caller.Name + " at a time",
			Remedy: "End another one first: a tail, a watch, an export or a live page.", RetryAfter: time.Second,
		}
	case s.requests >= maxRequests, isStream && s.streams >= maxStreams:
		return &problem.Problem{
			Code: code.Unavailable, Detail: "too many requests are under way",
			Remedy: "Send the request again later.", RetryAfter: time.Second,
		}
	}
	s.requests++
	if isStream {
		s.streams++
		s.byCaller[key]++
	}
	return nil
}

// give gives back what take has taken.
func (s *slots) give(caller access.Identity, isStream bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests--
	if !isStream {
		return
	}
	s.streams--
	key := callerKey(caller)
	if s.byCaller[key]--; s.byCaller[key] == 0 {
		delete(s.byCaller, key)
	}
}

func callerKey(caller access.Identity) string { return string(caller.Method) + " " + caller.Name }
