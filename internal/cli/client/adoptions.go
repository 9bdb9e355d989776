package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/operate/adoptions"
	"github.com/watershipmq/watership/internal/operation"
)

// PreviewAdoption returns the failures that an adoption would find first.
func (c *Client) PreviewAdoption(ctx context.Context, r adoptions.Request) (adoptions.Result, error) {
	var found adoptions.AdoptionPreview
	err := c.post(ctx, actTimeout, "/adoptions/preview", "", r, &found)
	return adoptions.Result(found), err
}

const (
	adoptionPoll  = 300 * time.Millisecond
	cancelTimeout = 15 * time.Second
)

// Adopt starts an adoption and waits for its end. The end of ctx cancels it.
func (c *Client) Adopt(ctx context.Context, r adoptions.Request) (adoptions.Result, error) {
	var a adoptions.Adoption
	if err := c.post(ctx, actTimeout, "/adoptions", newKey(), r, &a); err != nil {
		return adoptions.Result{}, err
	}
	path := "/adoptions/" + operation.Segment(a.ID)
	a, err := c.awaitAdoption(ctx, path, a)
	if ctx.Err() == nil {
		return a.Result, err
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	var refused *Error
	err = c.post(end, cancelTimeout, path+"/cancel", newKey(), struct{}{}, nil)
	if hasEnded := errors.As(err, &refused) && refused.Status == http.StatusConflict; err != nil && !hasEnded {
		return a.Result, fmt.Errorf("the adoption may go on in the server, as it was not cancelled: %w", err)
	}
	a, err = c.awaitAdoption(end, path, a)
	if a.State == adoptions.Cancelled {
		err = nil
	}
	return a.Result, errors.Join(ctx.Err(), err)
}

// awaitAdoption reads an adoption until it has ended. Its error says why it ended before its
// end.
func (c *Client) awaitAdoption(ctx context.Context, path string, a adoptions.Adoption) (adoptions.Adoption, error) {
	for a.State == adoptions.Running {
		if err := backoff.Sleep(ctx, adoptionPoll); err != nil {
			return a, err
		}
		var next adoptions.Adoption
		if err := c.get(ctx, readTimeout, path, nil, &next); err != nil {
			return a, err
		}
		a = next
	}
	if a.State != adoptions.Done {
		return a, errors.New(a.Problem)
	}
	return a, nil
}
