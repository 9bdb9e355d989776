package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/server"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/schemas"
)

// The operations on the server itself.
var (
	GetStatus = operation.Declare[struct{}, StatusOutput](operation.Operation{
		Method: http.MethodGet, Path: "/status", ID: "getStatus", Tag: "system", Role: access.Viewer,
		Summary: "Get the state of the server, and the lag of the index",
	})
	GetVersion = operation.Declare[struct{}, VersionOutput](operation.Operation{
		Method: http.MethodGet, Path: "/version", ID: "getVersion", Tag: "system", Role: access.Viewer,
		Summary: "Get the version of the server, its settings, and the caller's permissions",
	})
)

func (a *API) status(ctx context.Context, _ *struct{}) (*StatusOutput, error) {
	if a.server == nil {
		return nil, errNotServing
	}
	status, err := a.server.Status(ctx)
	if access.FromContext(ctx).Limited() {
		status.Reload = nil // it names the routes of all queues
	}
	return &StatusOutput{status}, err
}

// version returns the version of this process, its settings, and the permissions of the caller.
func version(ctx context.Context, settings config.Config) *VersionOutput {
	caller := access.FromContext(ctx)
	return &VersionOutput{Version{
		system.Version(), schemas.DocumentVersion, newSettings(settings),
		Caller{caller.Name, caller.Role.String(), caller.Bodies, caller.BodyReasons, caller.Originals, caller.Queues, caller.Exchanges},
	}}
}

// StatusOutput is the output of GetStatus.
type StatusOutput struct{ Body server.Status }

// VersionOutput is the output of GetVersion.
type VersionOutput struct{ Body Version }

// Version is the version of the server.
type Version struct {
	Version   string   `json:"version"`
	Documents int      `json:"documents" doc:"Version of the documents of events"`
	Settings  Settings `json:"settings"`
	Caller    Caller   `json:"caller"`
}

// Settings are the settings of the server that say how events are stored.
type Settings struct {
	Labels           []string `json:"labels" nullable:"false" doc:"Headers that are indexed as labels.NAME (index.labels)"`
	NumericLabels    []string `json:"numeric_labels" nullable:"false" doc:"Headers that are indexed as numeric_labels.NAME (index.numeric_labels)"`
	BodyText         bool     `json:"body_text" doc:"Whether the words of bodies are indexed (index.body.text)"`
	BodyJSON         bool     `json:"body_json" doc:"Whether the JSON fields of bodies are indexed (index.body.json)"`
	BodyMaxValues    int      `json:"body_max_values" doc:"Maximum number of values in a JSON body that is indexed (index.body.max_values)"`
	RetentionSeconds int64    `json:"retention_seconds" doc:"Retention of published and handled events; 0: for ever (store.retention.traffic)"`
}

func newSettings(c config.Config) Settings {
	index := c.Index
	return Settings{
		append([]string{}, index.Labels...), append([]string{}, index.NumericLabels...),
		index.Body.Text, index.Body.JSON, index.Body.MaxValues, int64(c.Store.Retention.Traffic.Seconds()),
	}
}

// Caller is the identity of a request.
type Caller struct {
	Name        string   `json:"name"`
	Role        string   `json:"role" enum:"viewer,operator,admin"`
	Bodies      bool     `json:"bodies" doc:"Whether it may read bodies"`
	BodyReasons bool     `json:"body_reasons" doc:"Whether it has to give a reason for that, in the header Watership-Reason"`
	Originals   bool     `json:"originals" doc:"Whether it may read the originals of redacted messages, with a reason"`
	Queues      []string `json:"queues,omitempty" nullable:"false" doc:"Patterns of the queues to which it is limited"`
	Exchanges   []string `json:"exchanges,omitempty" nullable:"false" doc:"Patterns of the exchanges to which it is limited"`
}

var errNotServing = errors.New("this process does not serve")
