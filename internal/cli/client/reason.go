package client

import (
	"context"
	"errors"
	"sync"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/code"
)

// reason says why bodies and originals are read.
type reason struct {
	mu   sync.Mutex
	text string                                    // "": none was given
	ask  func(ctx context.Context) (string, error) // nil: nobody can be asked, or the user was
}

func newReason(cfg Config) *reason {
	return &reason{text: access.CleanReason(cfg.Reason), ask: cfg.Ask}
}

func (r *reason) given() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text
}

// isAsked reports whether there is another reason than the one that was sent: the user is asked, once.
func (r *reason) isAsked(ctx context.Context, sent string) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.text != sent || r.ask == nil {
		return r.text != sent, nil
	}
	text, err := r.ask(ctx)
	r.text, r.ask = access.CleanReason(text), nil
	return r.text != "", err
}

// reasoned does a request, and again if the server has wanted a reason and the user gives one.
func (c connection) reasoned(ctx context.Context, do func() error) error {
	sent := c.why.given()
	err := do()
	var refused *Error
	if !errors.As(err, &refused) || refused.refused == nil || refused.refused.Code != code.NeedsReason {
		return err
	}
	again, failed := c.why.isAsked(ctx, sent)
	if failed != nil || !again {
		return errors.Join(err, failed)
	}
	return do()
}
