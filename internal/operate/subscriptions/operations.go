package subscriptions

import (
	"context"
	"net/http"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/subscription"
)

// The operations on subscriptions.
var (
	ListSubscriptions = operation.Declare[struct{}, ListOutput](operation.Operation{
		Method: http.MethodGet, Path: "/subscriptions", ID: "listSubscriptions", Tag: "subscriptions", Role: access.Viewer,
		Summary: "List subscriptions",
	})
	CreateSubscription = operation.Declare[CreateInput, SubscriptionOutput](operation.Operation{
		Method: http.MethodPost, Path: "/subscriptions", ID: "createSubscription", Tag: "subscriptions", Role: access.Operator,
		Summary: "Create a subscription, which delivers events to a queue or a URL",
		Text: "Deliveries begin within two seconds: history that matches, in order, and then each new event, at least once. " +
			"A delivery has the headers watership-subscription and watership-subscription-position. A URL needs the role admin, and may lead only to addresses of the internet and of subscriptions.private_networks. " +
			"Targets get the originals of redacted messages, so that a server with rules or keys of redaction wants the permission originals.",
		Status: http.StatusCreated,
	})
	GetSubscription = operation.Declare[NameInput, SubscriptionOutput](operation.Operation{
		Method: http.MethodGet, Path: "/subscriptions/{name}", ID: "getSubscription", Tag: "subscriptions", Role: access.Viewer,
		Summary: "Get a subscription with its lag",
	})
	PauseSubscription = operation.Declare[PauseInput, SubscriptionOutput](operation.Operation{
		Method: http.MethodPost, Path: "/subscriptions/{name}/pause", ID: "pauseSubscription", Tag: "subscriptions", Role: access.Operator,
		Summary: "Pause a subscription",
	})
	ResumeSubscription = operation.Declare[ActInput, SubscriptionOutput](operation.Operation{
		Method: http.MethodPost, Path: "/subscriptions/{name}/resume", ID: "resumeSubscription", Tag: "subscriptions", Role: access.Operator,
		Summary: "Resume a subscription that is paused, or that a poison message has stopped",
	})
	SkipRemoved = operation.Declare[ActInput, SubscriptionOutput](operation.Operation{
		Method: http.MethodPost, Path: "/subscriptions/{name}/skip-removed", ID: "skipRemoved", Tag: "subscriptions", Role: access.Operator,
		Summary: "Resume a subscription without the events that retention removed before they were delivered",
	})
	RewindSubscription = operation.Declare[RewindInput, SubscriptionOutput](operation.Operation{
		Method: http.MethodPost, Path: "/subscriptions/{name}/rewind", ID: "rewindSubscription", Tag: "subscriptions", Role: access.Operator,
		Summary: "Continue a subscription at another position",
	})
	ConfigureSubscription = operation.Declare[ConfigureInput, SubscriptionOutput](operation.Operation{
		Method: http.MethodPost, Path: "/subscriptions/{name}/configure", ID: "configureSubscription", Tag: "subscriptions", Role: access.Operator,
		Summary: "Change the settings of a subscription",
		Text:    "Its state, position and parked messages stay. A subscription to a URL needs the role admin, and another query or program the permission originals, as a new subscription does.",
	})
	DeleteSubscription = operation.Declare[DeleteInput, struct{}](operation.Operation{
		Method: http.MethodPost, Path: "/subscriptions/{name}/delete", ID: "deleteSubscription", Tag: "subscriptions", Role: access.Operator,
		Summary: "Delete a subscription and the list of its parked messages", Unsigned: true,
	})
	ListParked = operation.Declare[NameInput, ParkedOutput](operation.Operation{
		Method: http.MethodGet, Path: "/subscriptions/{name}/parked", ID: "listParked", Tag: "subscriptions", Role: access.Viewer,
		Summary: "List the parked messages of a subscription",
	})
	RetryParked = operation.Declare[PositionsInput, CountOutput](operation.Operation{
		Method: http.MethodPost, Path: "/subscriptions/{name}/parked/retry", ID: "retryParked", Tag: "subscriptions", Role: access.Operator,
		Summary: "Deliver parked messages again",
	})
	DropParked = operation.Declare[PositionsInput, CountOutput](operation.Operation{
		Method: http.MethodPost, Path: "/subscriptions/{name}/parked/drop", ID: "dropParked", Tag: "subscriptions", Role: access.Operator,
		Summary: "Drop parked messages from the list", Unsigned: true,
	})
)

// operations are the functions of the operations.
type operations struct{ Service }

// Implement adds the operations on subscriptions to a set.
func Implement(set *operation.Set, sys *system.System) {
	o := operations{Service{sys}}
	operation.Implement(set, ListSubscriptions, o.list)
	operation.Implement(set, CreateSubscription, o.create)
	operation.Implement(set, GetSubscription, o.get)
	operation.Implement(set, PauseSubscription, o.pause)
	operation.Implement(set, ResumeSubscription, o.resume)
	operation.Implement(set, SkipRemoved, o.skipRemoved)
	operation.Implement(set, RewindSubscription, o.rewind)
	operation.Implement(set, ConfigureSubscription, o.configure)
	operation.Implement(set, DeleteSubscription, o.delete)
	operation.Implement(set, ListParked, o.parked)
	operation.Implement(set, RetryParked, o.retryParked)
	operation.Implement(set, DropParked, o.dropParked)
}

// Subscriptions is a list of subscriptions, sorted by name.
type Subscriptions struct {
	Subscriptions []Subscription `json:"subscriptions" nullable:"false"`
}

// ParkedMessages is a list of parked messages, sorted by position.
type ParkedMessages struct {
	Parked []ParkedMessage `json:"parked" nullable:"false"`
}

// ParkedCount is the number of parked messages that a request changed.
type ParkedCount struct {
	Changed int `json:"changed"`
}

// ListOutput has the subscriptions.
type ListOutput struct{ Body Subscriptions }

// NameInput names a subscription.
type NameInput struct {
	Name string `path:"name" maxLength:"100" doc:"Name of the subscription"`
}

// SubscriptionOutput has a subscription.
type SubscriptionOutput struct{ Body Subscription }

// ParkedOutput has parked messages.
type ParkedOutput struct{ Body ParkedMessages }

// CountOutput has the number of parked messages.
type CountOutput struct{ Body ParkedCount }

// maySee reports whether the caller may see a subscription with a query and the queue of its target,
// and change it.
func maySee(caller access.Identity, query, queue string) bool {
	return caller.Within(query) && (queue == "" || caller.MayQueue(queue))
}

func (o operations) list(ctx context.Context, _ *struct{}) (*ListOutput, error) {
	views, err := o.List(ctx)
	if err != nil {
		return nil, err
	}
	caller, out := access.FromContext(ctx), &ListOutput{Subscriptions{[]Subscription{}}}
	for _, v := range views {
		if maySee(caller, v.Query, v.Target.Queue) {
			out.Body.Subscriptions = append(out.Body.Subscriptions, outputOf(ctx, v).Body)
		}
	}
	return out, nil
}

// visible returns a subscription that the caller may see. It reads the record alone, since to count the
// events that are left can take long.
func (o operations) visible(ctx context.Context, name string) (subscription.Subscription, error) {
	all, err := o.System.Subscriptions(ctx)
	if err != nil {
		return subscription.Subscription{}, err
	}
	sub, err := all.Get(ctx, name)
	if err != nil {
		return sub, inputError(err)
	}
	if !maySee(access.FromContext(ctx), sub.Query, sub.Target.Queue) {
		return sub, &subscription.NotFoundError{Name: name}
	}
	return sub, nil
}

// checkVisible returns an error unless there is a subscription that the caller may see.
func (o operations) checkVisible(ctx context.Context, name string) error {
	_, err := o.visible(ctx, name)
	return err
}

func (o operations) get(ctx context.Context, in *NameInput) (*SubscriptionOutput, error) {
	if err := o.checkVisible(ctx, in.Name); err != nil {
		return nil, err
	}
	v, err := o.Show(ctx, in.Name)
	return outputOf(ctx, v), err
}

// CreateInput asks for a subscription.
type CreateInput struct {
	operation.IdempotencyKey
	Body NewSubscription
}

// NewSubscription is a request for a subscription.
type NewSubscription struct {
	Request
	Zone string `json:"time_zone,omitempty" maxLength:"100" doc:"Zone of times without one, such as Europe/Berlin or +02:00; default: UTC"`
}

func (o operations) create(ctx context.Context, in *CreateInput) (*SubscriptionOutput, error) {
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
		return nil, problem.NotAllowed(caller, "queue", target.Queue)
	}
	if err := o.checkOriginals(caller); err != nil {
		return nil, err
	}
	if in.Body.Upcast != "" {
		if err := access.ReadBodies(ctx, in.Body.Query); err != nil { // its errors quote them
			return nil, err
		}
	}
	zone, err := eventfilter.ParseZone("time_zone", in.Body.Zone)
	if err != nil {
		return nil, err
	}
	v, err := o.Subscribe(ctx, in.Body.Request, Caller{Name: caller.Name, Zone: zone, Restrict: restrict(ctx, in.Body.Query)})
	return outputOf(ctx, v), err
}

// restrict returns what limits a query to what the caller may see, and records a search of bodies: the target and the
// numbers say what matches.
func restrict(ctx context.Context, text string) func(kql.Node) (kql.Node, error) {
	return func(query kql.Node) (kql.Node, error) {
		restricted, err := access.FromContext(ctx).Restrict(query)
		if err == nil {
			err = access.SearchBodies(ctx, query, text)
		}
		return restricted, err
	}
}

// checkOriginals refuses a caller who may not read the originals of redacted messages: the target gets them from a
// process that opens them, which may be another one than this.
func (o operations) checkOriginals(caller access.Identity) error {
	if caller.Originals || o.System.Redactor() == nil {
		return nil
	}
	return problem.Forbidden(caller.Name+" may not read originals of redacted messages, which the target of a subscription gets", "Ask somebody with the permission originals.")
}

// PauseInput names a subscription to pause.
type PauseInput struct {
	operation.IdempotencyKey
	NameInput
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"1000" pattern:"\\S" doc:"Why it is paused"`
	}
}

func (o operations) pause(ctx context.Context, in *PauseInput) (*SubscriptionOutput, error) {
	return o.change(ctx, in.Name, Change{Action: Pause, Reason: in.Body.Reason}, in.Body.Reason)
}

// ActInput names a subscription to change.
type ActInput struct {
	operation.IdempotencyKey
	NameInput
}

func (o operations) resume(ctx context.Context, in *ActInput) (*SubscriptionOutput, error) {
	return o.change(ctx, in.Name, Change{Action: Resume}, "")
}

func (o operations) skipRemoved(ctx context.Context, in *ActInput) (*SubscriptionOutput, error) {
	return o.change(ctx, in.Name, Change{Action: ResumeAfterRemoved}, "")
}

// RewindInput names a subscription to rewind.
type RewindInput struct {
	operation.IdempotencyKey
	NameInput
	Body struct {
		To string `json:"to" minLength:"1" maxLength:"600" doc:"start, now, a position, or a time with its zone"`
	}
}

func (o operations) rewind(ctx context.Context, in *RewindInput) (*SubscriptionOutput, error) {
	sub, err := o.visible(ctx, in.Name)
	if err == nil {
		err = o.checkOriginals(access.FromContext(ctx)) // what was before it was made is delivered, too
	}
	if err == nil && sub.Upcast.Program != "" {
		err = access.ReadBodies(ctx, sub.Query) // errors of its upcast quote them
	}
	if err != nil {
		return nil, err
	}
	return o.change(ctx, in.Name, Change{Action: Rewind, To: in.Body.To}, "to "+in.Body.To)
}

// DeleteInput names a subscription to delete.
type DeleteInput struct {
	operation.IdempotencyKey
	NameInput
	Body *Deletion
}

// Deletion says why a subscription is deleted.
type Deletion struct {
	Reason string `json:"reason,omitempty" maxLength:"1000" doc:"Why"`
}

func (o operations) delete(ctx context.Context, in *DeleteInput) (*struct{}, error) {
	reason := ""
	if in.Body != nil {
		reason = in.Body.Reason
	}
	_, err := o.change(ctx, in.Name, Change{Action: Delete}, reason)
	return nil, err
}

func (o operations) change(ctx context.Context, name string, c Change, reason string) (*SubscriptionOutput, error) {
	access.Describe(ctx, access.Action{Name: string(c.Action), Object: "subscription " + name, Reason: reason})
	if err := o.checkVisible(ctx, name); err != nil {
		return nil, err
	}
	v, err := o.Change(ctx, name, c, Caller{Name: access.FromContext(ctx).Name, Zone: time.UTC})
	return outputOf(ctx, v), err
}

func (o operations) parked(ctx context.Context, in *NameInput) (*ParkedOutput, error) {
	if err := o.checkVisible(ctx, in.Name); err != nil {
		return nil, err
	}
	list, err := o.Parked(ctx, in.Name)
	for i := range list {
		if list[i].Cause == subscription.UpcastFailed && !access.ShowsBodies(ctx) {
			list[i].Error = ""
		}
	}
	return &ParkedOutput{ParkedMessages{append([]ParkedMessage{}, list...)}}, err
}

// PositionsInput names parked messages.
type PositionsInput struct {
	operation.IdempotencyKey
	NameInput
	Body struct {
		Positions []string `json:"positions,omitempty" maxItems:"1000" nullable:"false" doc:"Of parked messages; none: all"`
	}
}

func (o operations) retryParked(ctx context.Context, in *PositionsInput) (*CountOutput, error) {
	return o.changeParked(ctx, "retry parked messages", in, false)
}

func (o operations) dropParked(ctx context.Context, in *PositionsInput) (*CountOutput, error) {
	return o.changeParked(ctx, "drop parked messages", in, true)
}

func (o operations) changeParked(ctx context.Context, action string, in *PositionsInput, drop bool) (*CountOutput, error) {
	access.Describe(ctx, access.Action{Name: action, Object: "subscription " + in.Name})
	if err := o.checkVisible(ctx, in.Name); err != nil {
		return nil, err
	}
	n, err := o.ChangeParked(ctx, in.Name, drop, in.Body.Positions, Caller{Name: access.FromContext(ctx).Name})
	return &CountOutput{ParkedCount{n}}, err
}
