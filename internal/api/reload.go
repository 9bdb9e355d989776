package api

import (
	"context"
	"net/http"
	"time"

	"github.com/watershipmq/watership/internal/access"
	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/internal/operation"
)

func (a *API) registerReload() {
	register(a, operation.Operation{
		Method: http.MethodPost, Path: "/reload", ID: "reload", Tag: "system", Role: access.Admin, Timeout: 2 * time.Minute,
		Summary: "Reload the configuration of the server",
		Text: "Routes and retry policies take effect, with the files that routes name; no message is lost, and routes that stay are not interrupted. " +
			"Settings that need a restart are listed. If anything is wrong, everything stays as it is.",
	}, a.reload)
}

type reloadInput struct{ IdempotencyKey }

type reloadOutput struct{ Body app.Reloaded }

func (a *API) reload(ctx context.Context, _ *reloadInput) (*reloadOutput, error) {
	access.Describe(ctx, access.Action{Name: "reload", Object: "configuration"})
	reloaded, err := a.app.Reload(ctx)
	if err != nil {
		return nil, err
	}
	return &reloadOutput{reloaded}, nil
}
