package cli

import (
	"context"
	"errors"

	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/audit"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
)

// local does operations as functions of this process, by its RabbitMQ and its store.
type local struct {
	*system.System
	set    *operation.Set
	reason string // why originals are read; "": none was given
}

func newLocal(sys *system.System, reason string) *local {
	return &local{sys, httpapi.Local(sys), reason}
}

// Do implements operation.Via. The result of an action names its operator, as a job or an event of a
// failure does, or else an audit event does, as a server records it.
func (l *local) Do(ctx context.Context, op *operation.Operation, in, out any) error {
	do := func(ctx context.Context) error { return l.set.Do(ctx, op, in, out) }
	if op.Unsigned {
		return l.recorded(ctx, do)
	}
	return refused(do(l.reading(ctx)))
}

// reading returns a context for what the operator reads: of originals there is an audit event.
func (l *local) reading(ctx context.Context) context.Context {
	return access.Recording(asOperator(ctx), audit.Recorder{System: l.System}, l.reason)
}

// Version implements backend.
func (l *local) Version(ctx context.Context) (httpapi.Version, error) {
	version, err := httpapi.GetVersion.Call(ctx, l, struct{}{})
	return version.Body, err
}

// recorded does an action with an audit event, and returns the errors of both. A store can be mended while RabbitMQ is down, so that an
// event is needed only for an operator who has said a name or a reason.
func (l *local) recorded(ctx context.Context, do func(ctx context.Context) error) error {
	named := access.FromContext(ctx).Name != ""
	return access.Do(asOperator(ctx), audit.Recorder{System: l.System}, named, func(ctx context.Context) error { return refused(do(ctx)) })
}

// inCommand returns the local system of a command for what no server does. instead says what to do
// through a server.
func inCommand(sys backend, flag, instead string) (*local, error) {
	l, isLocal := sys.(*local)
	if !isLocal {
		return nil, usagef("%s cannot go through --server, since it runs in the command: %s", flag, instead)
	}
	return l, nil
}

// asOperator returns a context whose actions have an operator: the user of this process if --operator
// names none.
func asOperator(ctx context.Context) context.Context {
	if access.FromContext(ctx).Name != "" {
		return ctx
	}
	return access.NewContext(ctx, access.AsOperator(operator()))
}

// refused returns an error with the remedy of its problem.
func refused(err error) error {
	var p *problem.Problem
	switch {
	case !errors.As(err, &p):
		return err
	case p.IsMistake():
		return system.InputError{Err: refusal{p}}
	}
	return refusal{p}
}

// refusal is a problem with its remedy.
type refusal struct{ *problem.Problem }

// Error implements error.
func (r refusal) Error() string { return r.Text(r.Remedy) }

// Unwrap returns the problem.
func (r refusal) Unwrap() error { return r.Problem }
