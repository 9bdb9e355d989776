package cli

import (
	"context"
	"errors"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/schemas"
)

// backend is a RabbitMQ system with its store of events. Commands do operations by its servers
// (local), or through the HTTP API of a watership serve (client.Client).
type backend interface {
	operation.Via
	language
	streams

	// Version returns the version and the settings of the process that does the operations, and the
	// permissions of the caller.
	Version(ctx context.Context) (httpapi.Version, error)

	Close() error
}

// language reads queries and the names of fields.
type language interface {
	ParseQuery(text string) (kql.Node, error)
	Fields() (kql.Fields, error)
	Field(name string) (kql.Field, error)
	DocumentFormat() schemas.DocumentFormat
}

// isRefused reports whether an operation has a problem with a code.
func isRefused(err error, with code.Code) bool {
	var refused *problem.Problem
	return errors.As(err, &refused) && refused.Code == with
}
