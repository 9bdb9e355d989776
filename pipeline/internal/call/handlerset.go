// Package call has the handlers of a router, the messages that they get, and their metrics.
package call

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/backoff"
)

// Set has the handlers of a router, by name.
type Set struct {
	router *message.Router
	logger *slog.Logger

	mu       sync.Mutex // guards handlers
	handlers map[string]*message.Handler
}

// idle is the name of the handler that keeps the router running while no other handler does: a
// router ends with its last handler.
const idle = "watership idle"

// NewSet returns the set of a router that has no handlers.
func NewSet(router *message.Router, logger *slog.Logger) *Set {
	router.AddConsumerHandler(idle, "", silence{}, func(*message.Message) error { return nil })
	return &Set{router: router, logger: logger, handlers: map[string]*message.Handler{}}
}

// silence is a subscriber without messages.
type silence struct{}

func (silence) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	none := make(chan *message.Message)
	context.AfterFunc(ctx, func() { close(none) })
	return none, nil
}

func (silence) Close() error { return nil }

// Add adds the handler of a queue, which Start starts, or the router when it runs.
func (s *Set) Add(queue string, from message.Subscriber, handle message.NoPublishHandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers[queue] = s.router.AddConsumerHandler(queue, queue, running{from}, handle)
}

// running is a subscriber that has no messages, and no error, once its context has ended: the
// router waits for each handler that was added, and so starts and ends it.
type running struct{ message.Subscriber }

func (r running) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if ctx.Err() == nil {
		messages, err := r.Subscriber.Subscribe(ctx, topic)
		if err == nil || ctx.Err() == nil {
			return messages, err
		}
	}
	return silence{}.Subscribe(ctx, topic)
}

// String is the name of the subscriber in logs.
func (r running) String() string { return fmt.Sprint(r.Subscriber) }

// Has reports whether a queue has a handler.
func (s *Set) Has(queue string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handlers[queue] != nil
}

// Stop stops the handlers of queues and waits until they have finished their messages, as long
// as their subscribers wait. It removes them.
func (s *Set) Stop(queues ...string) {
	var stopping sync.WaitGroup
	s.mu.Lock()
	for queue, handler := range s.handlers {
		if slices.Contains(queues, queue) {
			delete(s.handlers, queue)
			handler.Stop()
			stopping.Go(func() { <-handler.Stopped() })
		}
	}
	s.mu.Unlock()
	stopping.Wait()
}

const startPause = time.Second // before another try

// Start starts the handlers that were added while the router runs. A queue that cannot be
// consumed, as its service has deleted it, is tried again until ctx ends. After the end of ctx
// the handlers start without messages, so that the router can end.
func (s *Set) Start(ctx context.Context) {
	for logged := ""; ; {
		ended := ctx.Err() != nil
		err := s.router.RunHandlers(ctx)
		if err == nil || ended {
			return
		}
		if err.Error() != logged {
			logged = err.Error()
			s.logger.Error("a handler cannot start; trying again", "error", err)
		}
		_ = backoff.Sleep(ctx, startPause)
	}
}
