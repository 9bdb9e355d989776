package api

import (
	"context"
	"net/http"

	"github.com/watershipmq/watership/internal/access"
	"github.com/watershipmq/watership/internal/app"
)

func (a *API) registerVersion() {
	register(a, operation{
		method: http.MethodGet, path: "/version", id: "getVersion", tag: "system", role: access.Viewer,
		summary: "Get the version of the server, and the caller's permissions",
	}, func(ctx context.Context, _ *struct{}) (*versionOutput, error) {
		caller := access.FromContext(ctx)
		return &versionOutput{Version{app.Version(), Caller{caller.Name, caller.Role.String(), caller.Bodies, caller.Queues, caller.Exchanges}}}, nil
	})
}

type versionOutput struct{ Body Version }

// Version is the version of the server.
type Version struct {
	Version string `json:"version"`
	Caller  Caller `json:"caller"`
}

// Caller is the identity of a request.
type Caller struct {
	Name      string   `json:"name"`
	Role      string   `json:"role" enum:"viewer,operator,admin"`
	Bodies    bool     `json:"bodies" doc:"Whether it may read bodies"`
	Queues    []string `json:"queues,omitempty" nullable:"false" doc:"Patterns of the queues to which it is limited"`
	Exchanges []string `json:"exchanges,omitempty" nullable:"false" doc:"Patterns of the exchanges to which it is limited"`
}
