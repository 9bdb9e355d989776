package subscriptions

import (
	"context"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/subscription"
)

// Settings are new settings of a subscription. Those that are left out stay.
type Settings struct {
	Query      *string `json:"query,omitempty" maxLength:"4000" doc:"KQL, which finds events after the position; without event.action it finds published events"`
	Upcast     *string `json:"upcast,omitempty" maxLength:"65536" doc:"Program that changes former versions of messages, from the next delivery on, also of parked messages; empty: none. It needs the permission to read bodies."`
	OnPoison   string  `json:"on_poison,omitempty" enum:"park,park-stream,stop" doc:"What happens to a message that cannot be delivered"`
	MaxBacklog *int    `json:"max_backlog,omitempty" minimum:"0" maximum:"1000000000" doc:"Ready messages in the queue at which deliveries wait; 0: no limit"`
	Attempts   *int    `json:"attempts,omitempty" minimum:"0" maximum:"10000" doc:"Calls of a URL until a message is poison; 0: no limit"`

	By          *string `json:"by,omitempty" enum:"stream,position" doc:"Of a URL: stream delivers streams side by side, each in order; position delivers one event after another"`
	Concurrency *int    `json:"concurrency,omitempty" minimum:"0" maximum:"200" doc:"Calls at a time, by stream; 0: 10"`
}

// orderOf returns the order of deliveries with a name: stream, or position for one event after another.
func orderOf(name string) (subscription.By, error) {
	switch name {
	case "", "position":
		return "", nil
	case string(subscription.ByStream):
		return subscription.ByStream, nil
	}
	return "", system.InputErrorf("by %q: expected stream or position", name)
}

// ConfigureInput has new settings of a subscription.
type ConfigureInput struct {
	operation.IdempotencyKey
	NameInput
	Body struct {
		Settings
		Zone string `json:"time_zone,omitempty" maxLength:"100" doc:"Zone of times without one, such as Europe/Berlin or +02:00; default: UTC"`
	}
}

func (o operations) configure(ctx context.Context, in *ConfigureInput) (*SubscriptionOutput, error) {
	caller := access.FromContext(ctx)
	access.Describe(ctx, access.Action{Name: "configure", Object: "subscription " + in.Name})
	sub, err := o.visible(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	if sub.Target.Kind == subscription.ToURL && !caller.May(access.Admin) {
		return nil, problem.Forbidden(caller.Name+" has the role "+caller.Role.String()+", and what goes to a URL is a decision of an admin", "Ask an admin.")
	}
	if in.Body.Upcast != nil || in.Body.Query != nil {
		if err := o.checkOriginals(caller); err != nil {
			return nil, err
		}
	}
	if in.Body.Upcast != nil || in.Body.Query != nil && sub.Upcast.Program != "" {
		if err := access.ReadBodies(ctx, sub.Query); err != nil { // errors of upcasts quote them
			return nil, err
		}
	}
	zone, err := eventfilter.ParseZone("time_zone", in.Body.Zone)
	if err != nil {
		return nil, err
	}
	query := sub.Query
	if in.Body.Query != nil {
		query = *in.Body.Query
	}
	v, err := o.Configure(ctx, in.Name, in.Body.Settings, Caller{Name: caller.Name, Zone: zone, Restrict: restrict(ctx, query)})
	return outputOf(ctx, v), err
}

// Configure changes the settings of a subscription. Mistakes are InputErrors.
func (s Service) Configure(ctx context.Context, name string, to Settings, by Caller) (Subscription, error) {
	settings := subscription.Settings{OnPoison: subscription.OnPoison(to.OnPoison), Upcast: to.Upcast, Concurrency: to.Concurrency}
	if to == (Settings{}) {
		return Subscription{}, system.InputErrorf("expected a setting to change: query, upcast, on_poison, max_backlog, attempts, by or concurrency")
	}
	if to.By != nil {
		order, err := orderOf(*to.By)
		if err != nil {
			return Subscription{}, err
		}
		settings.By = &order
	}
	if to.Query != nil {
		query, err := s.query(*to.Query, by)
		if err != nil {
			return Subscription{}, err
		}
		settings.Query = &query
	}
	if to.MaxBacklog != nil {
		backlog, err := maxBacklog(*to.MaxBacklog)
		if err != nil {
			return Subscription{}, err
		}
		settings.MaxBacklog = &backlog
	}
	all, err := s.System.Subscriptions(ctx)
	if err != nil {
		return Subscription{}, err
	}
	if to.Attempts != nil {
		former, err := all.Get(ctx, name)
		if err != nil {
			return Subscription{}, inputError(err)
		}
		policy := withAttempts(former.Policy, *to.Attempts)
		settings.Policy = &policy
	}
	sub, err := all.Configure(ctx, name, by.Name, settings)
	if err != nil {
		return Subscription{}, inputError(err)
	}
	return view(ctx, all, sub)
}

// withAttempts returns a policy with another number of attempts; 0: no limit, which no policy has.
func withAttempts(former *retry.Policy, attempts int) retry.Policy {
	switch {
	case attempts == 0:
		return retry.Policy{}
	case former == nil:
		return subscription.Attempts(attempts)
	}
	return former.WithAttempts(attempts)
}
