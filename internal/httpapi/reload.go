package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/server"
)

// Reload declares the operation.
var Reload = operation.Declare[ReloadInput, ReloadOutput](operation.Operation{
	Method: http.MethodPost, Path: "/reload", ID: "reload", Tag: "system", Role: access.Admin, Timeout: 2 * time.Minute,
	Summary: "Reload the configuration of the server",
	Text: "Routes, retry policies and alerts take effect, with the files that routes name; no message is lost, and routes that stay are not interrupted. " +
		"Settings that need a restart are listed. If anything is wrong, everything stays as it is.",
})

// ReloadInput is the input of Reload.
type ReloadInput struct{ operation.IdempotencyKey }

// ReloadOutput is the output of Reload.
type ReloadOutput struct{ Body server.Reloaded }

func (a *API) reload(ctx context.Context, _ *ReloadInput) (*ReloadOutput, error) {
	access.Describe(ctx, access.Action{Name: "reload", Object: "configuration"})
	if caller := access.FromContext(ctx); caller.Limited() {
		return nil, problem.Forbidden(caller.Name+" may not use all queues, and the configuration has the routes of all", "Ask for a token without limits.")
	}
	if a.server == nil {
		return nil, errNotServing
	}
	reloaded, err := a.server.Reload(ctx)
	if err != nil {
		return nil, err
	}
	return &ReloadOutput{reloaded}, nil
}
