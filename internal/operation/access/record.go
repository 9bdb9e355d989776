package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"
)

// recordTimeout bounds the wait for the record of an action.
const recordTimeout = 5 * time.Second

// record stores an audit event. The log has it, too, in case that the store never gets it.
func (g *Guard) record(ctx context.Context, r Record) error {
	r.Time = time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	err := g.recorder.Record(ctx, r)
	attributes := []any{
		"user", r.Identity.Name, "method", string(r.Identity.Method), "address", r.Identity.Address.String(), "client", r.Identity.Client,
		"action", r.Action.Name, "object", r.Action.Object, "reason", r.Action.Reason, "status", r.Status, "problem", r.Problem,
	}
	if err != nil {
		g.logger.Error("an action could not be recorded in the store", append(attributes, "error", err)...)
		return err
	}
	g.logger.Info("action", attributes...)
	return nil
}

// recordRefusal records a request that was refused. Those that only lack credentials and
// would change nothing are left out, such as the first request of each browser, and so are
// those above a limit: the store cannot be filled without credentials.
func (g *Guard) recordRefusal(r *http.Request, who Identity, err error) {
	if isMissing(err) && isSafe(r.Method) || statusOf(err) == http.StatusTooManyRequests {
		return
	}
	if g.refusals.wait("", time.Now()) > 0 {
		g.logger.Warn("too many refused requests to record each", "address", who.Address.String(), "problem", err.Error())
		return
	}
	a := audit{}
	_ = g.record(r.Context(), Record{Identity: who, Action: a.describe(r), Status: statusOf(err), Problem: err.Error()})
}

// Do does an action of a command, and records its description unless it changes nothing. An
// action that failed is recorded, too, since it may have changed something. That it could not be
// recorded is an error if its operator has given a name, as named says, or a reason.
func Do(ctx context.Context, to Recorder, named bool, action func(ctx context.Context) error) error {
	a := &audit{recorder: to, record: func(ctx context.Context, r Record) error {
		r.Time = time.Now()
		return to.Record(ctx, r)
	}}
	err := action(context.WithValue(ctx, auditKey{}, a))
	if a.action.DryRun || a.action.Name == "" {
		return err
	}
	r := Record{Identity: FromContext(ctx), Action: a.action, Time: time.Now(), Status: statusFor(err), Problem: shortened(problemOf(err))}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	failed := to.Record(ctx, r)
	switch {
	case failed == nil || !named && r.Action.Reason == "":
		return err
	case err == nil:
		return fmt.Errorf("it was done, and its operator and reason could not be recorded: look at its effect before you repeat it: %w", failed)
	}
	return errors.Join(err, fmt.Errorf("the operator and the reason could not be recorded: %w", failed))
}

// Call does a call of a request that may have several, as an agent's may. Each has an audit
// event of its own, whether or not it changes something, with the description that do gives, or
// else with this one. do returns the status of its response. An error says that nothing was done,
// or that it was not recorded.
func Call(ctx context.Context, described Action, do func(ctx context.Context) (status int)) error {
	request, ok := ctx.Value(auditKey{}).(*audit)
	if !ok || request.record == nil {
		return &Error{Code: code.Forbidden, Problem: "the request was not authenticated"}
	}
	if err := request.recorder.Ready(); err != nil {
		return errUnrecorded(err)
	}
	a := &audit{recorder: request.recorder, record: request.record}
	a.reason, a.kept = request.reasons()
	status := do(context.WithValue(ctx, auditKey{}, a))
	r := Record{Identity: FromContext(ctx), Action: a.describedOr(described.Name, described.Object), Status: status, Problem: a.problemAt(status)}
	if err := request.record(ctx, r); err != nil {
		return &Error{Code: code.Internal, Problem: "the call was done, and could not be recorded: look at its effect before you repeat it", Cause: err}
	}
	return nil
}

// problemAt returns the reason for a response of a status.
func (a *audit) problemAt(status int) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if status < http.StatusBadRequest {
		return ""
	}
	return a.problem
}

// describe returns the action of a request. Without a description by its handler, it is
// the method and the route.
func (a *audit) describe(r *http.Request) Action {
	name := r.Method
	if strings.Contains(r.Pattern, " ") { // with the method, so not one of several routes
		name = r.Pattern
	}
	return a.describedOr(name, r.URL.EscapedPath())
}

// describedOr returns the action, with a name and an object if it was described without.
func (a *audit) describedOr(name, object string) Action {
	a.mu.Lock()
	defer a.mu.Unlock()
	described := a.action
	if described.DryRun && described.Name != "" {
		described.Name += " (dry run)"
	}
	described.Name = cmp.Or(described.Name, name)
	described.Object = cmp.Or(described.Object, shortened(object))
	return described
}
