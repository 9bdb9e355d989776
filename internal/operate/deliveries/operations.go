package deliveries

import (
	"context"
	"net/http"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
)

// The operations on receivers.
var (
	ListReceivers = operation.Declare[ListInput, ListOutput](operation.Operation{
		Method: http.MethodGet, Path: "/receivers", ID: "listReceivers", Tag: "receivers", Role: access.Viewer, Timeout: time.Minute,
		Summary: "List the receivers of routes: how their requests fared, those with most failures first",
		Text: "Receivers are the keys by which routes divide their handlers, such as the receivers of webhooks. " +
			"The query and the period choose the requests that are counted.",
	})
	GetReceiver = operation.Declare[GetInput, GetOutput](operation.Operation{
		Method: http.MethodGet, Path: "/receivers/{queue}", ID: "getReceiver", Tag: "receivers", Role: access.Viewer, Timeout: time.Minute,
		Summary: "Get how the requests to one receiver of a route fared",
	})
)

// operations are the functions of the operations.
type operations struct{ system *system.System }

// Implement adds the operations on receivers to a set.
func Implement(set *operation.Set, sys *system.System) {
	o := operations{sys}
	operation.Implement(set, ListReceivers, o.list)
	operation.Implement(set, GetReceiver, o.get)
	operation.Implement(set, HoldReceiver, o.hold)
	operation.Implement(set, ReleaseReceiver, o.release)
}

// ListInput chooses receivers.
type ListInput struct {
	eventfilter.QueryFilter
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"Maximum number of receivers"`
}

// ListOutput has receivers.
type ListOutput struct{ Body Receivers }

// Receivers is a list of receivers.
type Receivers struct {
	Receivers []ReceiverState `json:"receivers" nullable:"false"`
}

func (o operations) list(ctx context.Context, in *ListInput) (*ListOutput, error) {
	sel, err := in.Selection(ctx, o.system)
	if err != nil {
		return nil, err
	}
	finder, err := o.finder(ctx)
	if err != nil {
		return nil, err
	}
	always := in.QueryFilter
	always.Since, always.From, always.To = "", "", ""
	holding, err := always.Selection(ctx, o.system)
	if err != nil {
		return nil, err
	}
	found, err := finder.List(ctx, sel.Query, holding.Query, in.Limit)
	if err == nil && len(found) == 0 {
		err = o.system.CheckStore(ctx) // may be the reason
	}
	return &ListOutput{Receivers{append([]ReceiverState{}, found...)}}, err
}

// GetInput names a receiver.
type GetInput struct {
	Queue string `path:"queue" maxLength:"255" doc:"Queue of the route"`
	Name  string `query:"receiver" required:"true" minLength:"1" maxLength:"1000" doc:"Key of its messages (watership.receiver)"`
	Since string `query:"since" maxLength:"100" default:"24h" doc:"Period whose requests are counted"`
}

// GetOutput has a receiver.
type GetOutput struct{ Body ReceiverState }

func (o operations) get(ctx context.Context, in *GetInput) (*GetOutput, error) {
	filter := eventfilter.QueryFilter{Filter: eventfilter.Filter{Query: Of(in.Queue, in.Name).String(), Since: in.Since}}
	if caller := access.FromContext(ctx); !caller.MayQueue(in.Queue) {
		return nil, problem.NotAllowed(caller, "queue", in.Queue)
	}
	sel, err := filter.Selection(ctx, o.system)
	if err != nil {
		return nil, err
	}
	finder, err := o.finder(ctx)
	if err != nil {
		return nil, err
	}
	r, err := finder.one(ctx, Key{in.Queue, in.Name}, kql.And{sel.Query, attempts()})
	if err != nil {
		return nil, err
	}
	if err := finder.Describe(ctx, &r); err != nil {
		return nil, err
	}
	holds, err := finder.held(ctx, Of(in.Queue, in.Name))
	if err != nil {
		return nil, err
	}
	r.holdAs(holds)
	o.setHeld(ctx, &r)
	if r.Held == nil && r.LastAt == nil && r.Waiting == 0 {
		return nil, system.InputErrorf("the record has no request to a receiver %q of queue %s", in.Name, in.Queue)
	}
	return &GetOutput{r}, nil
}

// finder returns what finds receivers in all that is recorded by now.
func (o operations) finder(ctx context.Context) (Finder, error) {
	store, err := o.system.Store(ctx)
	if err != nil {
		return Finder{}, err
	}
	open, err := failures.Unresolved(ctx, o.system)
	return Finder{store, open, access.FromContext(ctx).Restrict}, err
}
