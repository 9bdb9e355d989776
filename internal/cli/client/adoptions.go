package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/operation/problem"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/operate/adoptions"
)

const (
	adoptionPoll  = 300 * time.Millisecond
	cancelTimeout = 15 * time.Second
)

// Adopt starts an adoption and waits for its end. The end of ctx cancels it.
func (c *Client) Adopt(ctx context.Context, r adoptions.Request) (adoptions.Result, error) {
	started, err := adoptions.StartAdoption.Call(ctx, c, adoptions.StartInput{Body: adoptions.AdoptionRequest(r)})
	if err != nil {
		return adoptions.Result{}, err
	}
	named := adoptions.IDInput{ID: started.Body.ID}
	a, err := c.awaitAdoption(ctx, named, started.Body)
	if ctx.Err() == nil {
		return a.Result, err
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	var refused *problem.Problem
	_, err = adoptions.CancelAdoption.Call(end, c, adoptions.CancelInput{IDInput: named})
	if hasEnded := errors.As(err, &refused) && refused.Code == code.HasEnded; err != nil && !hasEnded {
		return a.Result, fmt.Errorf("the adoption may go on in the server, as it was not cancelled: %w", err)
	}
	a, err = c.awaitAdoption(end, named, a)
	if a.State == adoptions.Cancelled {
		err = nil
	}
	return a.Result, errors.Join(ctx.Err(), err)
}

// awaitAdoption reads an adoption until it has ended. Its error says why it ended before its
// end.
func (c *Client) awaitAdoption(ctx context.Context, named adoptions.IDInput, a adoptions.Adoption) (adoptions.Adoption, error) {
	for a.State == adoptions.Running {
		if err := backoff.Sleep(ctx, adoptionPoll); err != nil {
			return a, err
		}
		next, err := adoptions.GetAdoption.Call(ctx, c, named)
		if err != nil {
			return a, err
		}
		a = next.Body
	}
	if a.State != adoptions.Done {
		return a, errors.New(a.Problem)
	}
	return a, nil
}
