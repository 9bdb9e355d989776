package subscriptions

import (
	"context"
	"net/http"
	"time"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/subscription"
)

// operations are the operations of the HTTP API.
type operations struct{ Service }

// Register adds the operations on subscriptions to an API.
func Register(set *operation.Set, a *system.System) {
	o := operations{Service{a}}
	op := func(method, path, id string, role access.Role, summary string) operation.Operation {
		return operation.Operation{Method: method, Path: "/subscriptions" + path, ID: id, Tag: "subscriptions", Role: role, Summary: summary}
	}
	operation.Register(set, op(http.MethodGet, "", "listSubscriptions", access.Viewer, "List subscriptions"), o.list)
	create := op(http.MethodPost, "", "createSubscription", access.Operator, "Create a subscription, which delivers events to a queue or a URL")
	create.Text = "Deliveries begin within two seconds: history that matches, in order, and then each new event, at least once. " +
		"A delivery has the headers watership-subscription and watership-subscription-position. A URL needs the role admin, and may lead only to addresses of the internet and of subscriptions.private_networks."
	create.Status = http.StatusCreated
	operation.Register(set, create, o.create)
	operation.Register(set, op(http.MethodGet, "/{name}", "getSubscription", access.Viewer, "Get a subscription with its lag"), o.get)
	operation.Register(set, op(http.MethodPost, "/{name}/pause", "pauseSubscription", access.Operator, "Pause a subscription"), o.pause)
	operation.Register(set, op(http.MethodPost, "/{name}/resume", "resumeSubscription", access.Operator, "Resume a subscription that is paused, or that a poison message has stopped"), o.resume)
	operation.Register(set, op(http.MethodPost, "/{name}/skip-removed", "skipRemoved", access.Operator, "Resume a subscription without the events that retention removed before they were delivered"), o.skipRemoved)
	operation.Register(set, op(http.MethodPost, "/{name}/rewind", "rewindSubscription", access.Operator, "Continue a subscription at another position"), o.rewind)
	operation.Register(set, op(http.MethodPost, "/{name}/delete", "deleteSubscription", access.Operator, "Delete a subscription and the list of its parked messages"), o.delete)
	operation.Register(set, op(http.MethodGet, "/{name}/parked", "listParked", access.Viewer, "List the parked messages of a subscription"), o.parked)
	operation.Register(set, op(http.MethodPost, "/{name}/parked/retry", "retryParked", access.Operator, "Deliver parked messages again"), o.retryParked)
	operation.Register(set, op(http.MethodPost, "/{name}/parked/drop", "dropParked", access.Operator, "Drop parked messages from the list"), o.dropParked)
}

// Subscription is a subscription.
type Subscription View

// Subscriptions is a list of subscriptions, sorted by name.
type Subscriptions struct {
	Subscriptions []Subscription `json:"subscriptions" nullable:"false"`
}

// ParkedMessages is a list of parked messages, sorted by position.
type ParkedMessages struct {
	Parked []ParkedMessage `json:"parked" nullable:"false"`
}

// ParkedMessage is a message that a subscription could not deliver.
type ParkedMessage Parked

// ParkedCount is the number of parked messages that a request changed.
type ParkedCount struct {
	Changed int `json:"changed"`
}

type listOutput struct{ Body Subscriptions }

// NameInput names a subscription.
type NameInput struct {
	Name string `path:"name" maxLength:"100" doc:"Name of the subscription"`
}

type subscriptionOutput struct{ Body Subscription }

type parkedOutput struct{ Body ParkedMessages }

type countOutput struct{ Body ParkedCount }

// maySee reports whether the caller may see a subscription, and change it.
func maySee(caller access.Identity, v View) bool {
	return caller.Within(v.Query) && (v.Target.Queue == "" || caller.MayQueue(v.Target.Queue))
}

func (o operations) list(ctx context.Context, _ *struct{}) (*listOutput, error) {
	views, err := o.List(ctx)
	if err != nil {
		return nil, err
	}
	caller, out := access.FromContext(ctx), &listOutput{Subscriptions{[]Subscription{}}}
	for _, v := range views {
		if maySee(caller, v) {
			out.Body.Subscriptions = append(out.Body.Subscriptions, Subscription(v))
		}
	}
	return out, nil
}

// visible returns a subscription if the caller may see it.
func (o operations) visible(ctx context.Context, name string) (View, error) {
	v, err := o.Show(ctx, name)
	if err == nil && !maySee(access.FromContext(ctx), v) {
		err = &subscription.NotFoundError{Name: name}
	}
	return v, err
}

func (o operations) get(ctx context.Context, in *NameInput) (*subscriptionOutput, error) {
	v, err := o.visible(ctx, in.Name)
	return &subscriptionOutput{Subscription(v)}, err
}

type createInput struct {
	operation.IdempotencyKey
	Body NewSubscription
}

// NewSubscription is a request for a subscription.
type NewSubscription struct {
	Request
	Zone string `json:"time_zone,omitempty" maxLength:"100" doc:"Zone of times without one, such as Europe/Berlin or +02:00; default: UTC"`
}

func (o operations) create(ctx context.Context, in *createInput) (*subscriptionOutput, error) {
	caller := access.FromContext(ctx)
	target, err := in.Body.target(o.networks())
	if err != nil {
		return nil, err
	}
	access.Describe(ctx, access.Action{Name: "subscribe", Object: "subscription " + in.Body.Name + " of " + in.Body.Query + " to " + target.String()})
	switch {
	case target.Kind == subscription.ToURL && !caller.May(access.Admin):
		return nil, problem.Forbidden(caller.Name+" has the role "+caller.Role.String()+", and a subscription to a URL needs admin", "Use a queue, or ask an admin.")
	case target.Kind == subscription.ToQueue && !caller.MayQueue(target.Queue):
		return nil, problem.Forbidden(caller.Name+" may not use the queue "+target.Queue, "Ask for a token for it.")
	}
	zone, err := zoneOf(in.Body.Zone)
	if err != nil {
		return nil, problem.BadRequest("time_zone "+in.Body.Zone+" is unknown", "Use a name such as Europe/Berlin, or an offset such as +02:00.")
	}
	v, err := o.Subscribe(ctx, in.Body.Request, Caller{Name: caller.Name, Zone: zone, Restrict: caller.Restrict})
	return &subscriptionOutput{Subscription(v)}, err
}

// zoneOf returns the zone of a name or an offset.
func zoneOf(name string) (*time.Location, error) {
	if t, err := time.Parse("-07:00", name); err == nil {
		return t.Location(), nil
	}
	return time.LoadLocation(name)
}

type pauseInput struct {
	operation.IdempotencyKey
	NameInput
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"1000" pattern:"\\S" doc:"Why it is paused"`
	}
}

func (o operations) pause(ctx context.Context, in *pauseInput) (*subscriptionOutput, error) {
	return o.change(ctx, in.Name, Change{Action: Pause, Reason: in.Body.Reason}, in.Body.Reason)
}

type actInput struct {
	operation.IdempotencyKey
	NameInput
}

func (o operations) resume(ctx context.Context, in *actInput) (*subscriptionOutput, error) {
	return o.change(ctx, in.Name, Change{Action: Resume}, "")
}

func (o operations) skipRemoved(ctx context.Context, in *actInput) (*subscriptionOutput, error) {
	return o.change(ctx, in.Name, Change{Action: SkipRemoved}, "")
}

type rewindInput struct {
	operation.IdempotencyKey
	NameInput
	Body struct {
		To string `json:"to" minLength:"1" maxLength:"600" doc:"start, now, a position, or a time with its zone"`
	}
}

func (o operations) rewind(ctx context.Context, in *rewindInput) (*subscriptionOutput, error) {
	return o.change(ctx, in.Name, Change{Action: Rewind, To: in.Body.To}, "to "+in.Body.To)
}

func (o operations) delete(ctx context.Context, in *actInput) (*struct{}, error) {
	_, err := o.change(ctx, in.Name, Change{Action: Delete}, "")
	return nil, err
}

func (o operations) change(ctx context.Context, name string, c Change, reason string) (*subscriptionOutput, error) {
	access.Describe(ctx, access.Action{Name: string(c.Action), Object: "subscription " + name, Reason: reason})
	if _, err := o.visible(ctx, name); err != nil {
		return nil, err
	}
	v, err := o.Change(ctx, name, c, Caller{Name: access.FromContext(ctx).Name, Zone: time.UTC})
	return &subscriptionOutput{Subscription(v)}, err
}

func (o operations) parked(ctx context.Context, in *NameInput) (*parkedOutput, error) {
	if _, err := o.visible(ctx, in.Name); err != nil {
		return nil, err
	}
	list, err := o.Parked(ctx, in.Name)
	out := &parkedOutput{ParkedMessages{[]ParkedMessage{}}}
	for _, p := range list {
		out.Body.Parked = append(out.Body.Parked, ParkedMessage(p))
	}
	return out, err
}

type positionsInput struct {
	operation.IdempotencyKey
	NameInput
	Body struct {
		Positions []string `json:"positions,omitempty" maxItems:"1000" nullable:"false" doc:"Of parked messages; none: all"`
	}
}

func (o operations) retryParked(ctx context.Context, in *positionsInput) (*countOutput, error) {
	return o.changeParked(ctx, "retry parked messages", in, false)
}

func (o operations) dropParked(ctx context.Context, in *positionsInput) (*countOutput, error) {
	return o.changeParked(ctx, "drop parked messages", in, true)
}

func (o operations) changeParked(ctx context.Context, action string, in *positionsInput, drop bool) (*countOutput, error) {
	access.Describe(ctx, access.Action{Name: action, Object: "subscription " + in.Name})
	if _, err := o.visible(ctx, in.Name); err != nil {
		return nil, err
	}
	n, err := o.ChangeParked(ctx, in.Name, drop, in.Body.Positions, Caller{Name: access.FromContext(ctx).Name})
	return &countOutput{ParkedCount{n}}, err
}
