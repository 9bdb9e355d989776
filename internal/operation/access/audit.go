package access

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/eventstore/kql"
)

// Action describes a request in its audit event.
type Action struct {
	Name   string // such as replay; default: the method and the route of the request
	Object string // its object, such as a query, a queue or the id of a job
	Reason string // why, in the words of the user
	DryRun bool   // it changes nothing
}

// Record is an audit event: an action of a user or its refusal, its origin and its reason.
type Record struct {
	Identity Identity
	Action   Action
	Time     time.Time
	Status   int    // of the response
	Problem  string // why it was refused, if the server knows
}

// Done reports whether the action was done; otherwise it was refused or failed.
func (r Record) Done() bool { return r.Status < http.StatusBadRequest }

// Recorder stores audit events.
type Recorder interface {
	// Record returns when the event cannot be lost any more.
	Record(ctx context.Context, r Record) error

	// Ready returns an error if Record would probably fail. Then no action is done.
	Ready() error
}

// audit is the audit event of a request in its making.
type audit struct {
	recorder Recorder
	record   func(context.Context, Record) error // an action of the request; a server has it in the log, too

	mu       sync.Mutex // of the fields below; a handler may use several goroutines
	action   Action
	problem  string
	reason   string   // why the request reads; "": it does not say
	kept     string   // why its browser reads bodies; "": no reason was given
	accesses []Action // to bodies and originals, that are recorded
}

type auditKey struct{}

// Describe describes a request for its audit event. Every request that may change
// something has such an event, also without a description. A later description replaces
// the fields that it has, but no dry run replaces an action: a page makes one when it is shown
// again because its action failed.
func Describe(ctx context.Context, action Action) {
	a, ok := ctx.Value(auditKey{}).(*audit)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if action.DryRun && a.action.Name != "" && !a.action.DryRun {
		return
	}
	if action.Name != "" {
		a.action.DryRun = action.DryRun
	}
	for _, field := range []struct{ to, from *string }{
		{&a.action.Name, &action.Name}, {&a.action.Object, &action.Object}, {&a.action.Reason, &action.Reason},
	} {
		if *field.from != "" {
			*field.to = *field.from
		}
	}
}

// RecordBegin stores an audit event of the described action before it is done, where nothing could be told of it
// after a crash. The audit event of the request has its outcome. An error says that nothing was recorded.
func RecordBegin(ctx context.Context) error {
	a, ok := ctx.Value(auditKey{}).(*audit)
	if !ok {
		return &Error{Code: code.Forbidden, Problem: "the request was not authenticated"}
	}
	a.mu.Lock()
	action := a.action
	a.mu.Unlock()
	action.Name = "begin to " + action.Name
	if err := a.recordOnce(ctx, action); err != nil {
		return &Error{Code: code.BrokerUnavailable, Problem: "the action cannot be recorded, so it was not done: try again", Cause: err}
	}
	return nil
}

// DescribeBefore puts a text before the object of a request in its audit event, such as the approval
// of an action.
func DescribeBefore(ctx context.Context, text string) {
	if a, ok := ctx.Value(auditKey{}).(*audit); ok {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.action.Object != "" {
			text += ": " + a.action.Object
		}
		a.action.Object = text
	}
}

// Refuse gives the audit event of a request, if it has one, the reason for which it is refused
// or has failed.
func Refuse(ctx context.Context, problem string) {
	if a, ok := ctx.Value(auditKey{}).(*audit); ok {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.problem = shortened(problem)
	}
}

// ReadBodies returns nil if the identity of a request may read the bodies of messages, with the reason that it
// needs, and if the audit event for it is stored. of names the messages: an id or a query. A handler
// sends no body without it.
func ReadBodies(ctx context.Context, of string) error {
	i := FromContext(ctx)
	a, ok := ctx.Value(auditKey{}).(*audit)
	if i.Method == ByLogins {
		return nil
	}
	if !ok {
		return &Error{Code: code.Forbidden, Problem: "the request was not authenticated", Cause: nil}
	}
	action := Action{Name: "read bodies", Object: of}
	if !i.May(Viewer) || !i.Bodies {
		Describe(ctx, action) // the answer is recorded
		return &Error{Code: code.Forbidden, Problem: i.Name + " may not read bodies", Remedy: bodiesRemedy}
	}
	if action.Reason = a.bodyReason(); action.Reason == "" && i.BodyReasons {
		return needsReason("bodies")
	}
	if err := a.recordOnce(ctx, action); err != nil {
		return &Error{Code: code.BrokerUnavailable, Problem: "the access cannot be recorded, so bodies cannot be read: try again", Cause: err}
	}
	return nil
}

// ShowsBodies reports whether an answer may quote bodies that were not asked for, as an error or a program does: the
// identity of a request may read them, and has said why if it needs a reason.
func ShowsBodies(ctx context.Context) bool {
	i := FromContext(ctx)
	if i.Method == ByLogins || !i.Bodies || !i.BodyReasons {
		return i.Method == ByLogins || i.Bodies
	}
	a, ok := ctx.Value(auditKey{}).(*audit)
	return ok && a.bodyReason() != ""
}

// SearchBodies returns nil if a query, whose fields are resolved, searches no bodies, or if the
// audit event for that is stored: the result of a query says something about the bodies. of is the text of
// the query. Whether the identity may search them is for Identity.Restrict to say.
func SearchBodies(ctx context.Context, query kql.Node, of string) error {
	if checkBodies(query) == nil || FromContext(ctx).Method == ByLogins {
		return nil
	}
	a, ok := ctx.Value(auditKey{}).(*audit)
	if !ok {
		return &Error{Code: code.Forbidden, Problem: "the request was not authenticated"}
	}
	action := Action{Name: "search bodies", Object: of, Reason: a.bodyReason()}
	if action.Reason == "" && FromContext(ctx).BodyReasons {
		return needsReason("bodies")
	}
	if err := a.recordOnce(ctx, action); err != nil {
		return &Error{
			Code: code.BrokerUnavailable, Problem: "the search cannot be recorded, so bodies cannot be searched", Cause: err,
			Remedy: "Try again, or name fields other than those of bodies, such as error.message: a text without a field searches bodies, too.",
		}
	}
	return nil
}

// recordOnce records an access to bodies or originals, unless the request has recorded the same before: a
// page of the console may ask several times.
func (a *audit) recordOnce(ctx context.Context, action Action) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Contains(a.accesses, action) {
		return nil
	}
	err := a.recorder.Record(ctx, Record{Identity: FromContext(ctx), Action: action, Time: time.Now(), Status: http.StatusOK})
	if err == nil {
		a.accesses = append(a.accesses, action)
	}
	return err
}

// Error is a refusal with its code.
type Error struct {
	Code    code.Code
	Problem string        // and how to mend it, unless Remedy says that
	Remedy  string        // may be empty
	Cause   error         // for the log; may be nil
	After   time.Duration // until the next attempt can succeed; 0: unknown

	missing bool // the request has no credentials, which is no attempt to sign in
}

// Error implements error. It leaves out the cause, which is not for clients.
func (e *Error) Error() string { return e.Problem }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// GetStatus returns the status of the response, as huma.StatusError does.
func (e *Error) GetStatus() int { return e.Code.Status() }

// NeedsRole returns the refusal of an identity without a role.
func NeedsRole(i Identity, needed Role) *Error {
	return &Error{
		Code: code.Forbidden, Problem: i.Name + " has the role " + i.Role.String() + ", and this needs " + needed.String(),
		Remedy: "Ask an administrator for the role.",
	}
}

// isMissing reports whether a request was refused as it has no credentials.
func isMissing(err error) bool {
	var refusal *Error
	return errors.As(err, &refusal) && refusal.missing
}

// errUnrecorded is the response where an action was recorded nowhere but in the log.
func errUnrecorded(cause error) error {
	return &Error{Code: code.BrokerUnavailable, Problem: "the request cannot be recorded, as RabbitMQ is unavailable: try again", Cause: cause}
}

// statusFor returns the status of the response to an error, or to none.
func statusFor(err error) int {
	if err == nil {
		return http.StatusOK
	}
	return statusOf(err)
}

func problemOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// statusOf returns the status of the response to an error.
func statusOf(err error) int {
	var refusal interface {
		error
		GetStatus() int
	}
	if errors.As(err, &refusal) {
		return refusal.GetStatus()
	}
	return http.StatusInternalServerError
}
