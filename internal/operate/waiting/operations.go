package waiting

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/system"
)

// The operations on waiting messages.
var (
	ListWaiting = operation.Declare[PageInput, PageOutput](operation.Operation{
		Method: http.MethodGet, Path: "/waiting", ID: "listWaiting", Tag: "waiting", Role: access.Viewer, Timeout: time.Minute,
		Summary: "List messages that wait for their next attempt, the next due first",
	})
	GroupWaiting = operation.Declare[PageInput, GroupsOutput](operation.Operation{
		Method: http.MethodGet, Path: "/waiting/groups", ID: "groupWaiting", Tag: "waiting", Role: access.Viewer, Timeout: time.Minute,
		Summary: "Group waiting messages by queue, class and error",
	})
	DecideWaiting = operation.Declare[DecideInput, DecideOutput](operation.Operation{
		Method: http.MethodPost, Path: "/waiting/decide", ID: "decideWaiting", Tag: "waiting", Role: access.Operator, Timeout: 5 * time.Minute,
		Summary: "Let the next attempt of waiting messages follow now or later, or cancel it",
		Text: "A message that is due in the meantime is left out, so that fewer than expect may match. A cancelled one gets a discarded event and can still be replayed. " +
			"Other messages that wait equally long may be late by the time that this takes.",
	})
)

// operations are the functions of the operations.
type operations struct{ system *system.System }

// Implement adds the operations on waiting messages to a set.
func Implement(set *operation.Set, sys *system.System) {
	o := operations{sys}
	operation.Implement(set, ListWaiting, o.list)
	operation.Implement(set, GroupWaiting, o.group)
	operation.Implement(set, DecideWaiting, o.decide)
}

// PageInput asks for a page of waiting messages, or of their groups.
type PageInput struct {
	eventfilter.QueryFilter
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Maximum number of messages or groups"`
	Cursor string `query:"cursor" maxLength:"20" doc:"Cursor of the page before, for the same query"`
}

// PageOutput has a page of waiting messages.
type PageOutput struct{ Body WaitingPage }

// WaitingPage is a page of waiting messages.
type WaitingPage struct {
	Messages []WaitingMessage `json:"messages" nullable:"false"`
	Total    int              `json:"total" doc:"Number of messages on all pages"`
	Cursor   string           `json:"cursor,omitempty" doc:"Continues after this page; none: this is the last. Messages that become due in between move later ones to earlier pages"`
}

func (o operations) list(ctx context.Context, in *PageInput) (*PageOutput, error) {
	query, begin, store, err := o.page(ctx, in)
	if err != nil {
		return nil, err
	}
	messages, _, err := Select(ctx, store, OrdersOf(o.system.Settings()), query, nil, time.Now())
	if err == nil && len(messages) == 0 {
		err = o.system.CheckStore(ctx)
	}
	shown, next := operation.PageAt(messages, begin, in.Limit)
	return &PageOutput{WaitingPage{Messages: append([]WaitingMessage{}, shown...), Total: len(messages), Cursor: next}}, err
}

// GroupsOutput has a page of groups.
type GroupsOutput struct{ Body WaitingGroupPage }

// WaitingGroupPage is a page of groups of waiting messages.
type WaitingGroupPage struct {
	Groups   []WaitingGroup `json:"groups" nullable:"false"`
	Messages int            `json:"messages" doc:"Number of messages in all groups"`
	Oldest   *time.Time     `json:"oldest,omitempty" doc:"The earliest such time of all groups; none: no message waits"`
	Cursor   string         `json:"cursor,omitempty" doc:"Continues after this page; none: this is the last"`
}

func (o operations) group(ctx context.Context, in *PageInput) (*GroupsOutput, error) {
	query, begin, store, err := o.page(ctx, in)
	if err != nil {
		return nil, err
	}
	groups, err := Groups(ctx, store, OrdersOf(o.system.Settings()), query, time.Now())
	if err == nil && len(groups) == 0 {
		err = o.system.CheckStore(ctx)
	}
	page := WaitingGroupPage{Groups: []WaitingGroup{}}
	for _, g := range groups {
		page.Messages += g.Count
		if page.Oldest == nil || g.Oldest.Before(*page.Oldest) {
			page.Oldest = &g.Oldest
		}
	}
	shown, next := operation.PageAt(groups, begin, in.Limit)
	for _, g := range shown {
		page.Groups = append(page.Groups, *g)
	}
	page.Cursor = next
	return &GroupsOutput{page}, err
}

// DecideInput has a decision about waiting messages.
type DecideInput struct {
	operation.IdempotencyKey
	Body WaitingDecision
}

// WaitingDecision selects waiting messages, and has the action on them.
type WaitingDecision struct {
	eventfilter.Choice
	Action    Action    `json:"action" enum:"now,postpone,cancel" doc:"now: the next attempt follows at once; postpone: it follows at not_before; cancel: none follows"`
	NotBefore time.Time `json:"not_before,omitzero" doc:"Time of the next attempt, for postpone: up to 30 days from now, and the attempt follows up to a second later"`
	operation.Bounds
}

// DecideOutput has the result.
type DecideOutput struct{ Body WaitingDecided }

// WaitingDecided is the result of a WaitingDecision.
type WaitingDecided struct {
	operation.Outcome
	Gone int `json:"gone" doc:"Messages that had left their delay queues: their next attempt has begun"`
}

func (o operations) decide(ctx context.Context, in *DecideInput) (*DecideOutput, error) {
	d := in.Body
	d.Describe(ctx, "waiting "+string(d.Action), d.Object())
	if err := cmp.Or(d.Need("query, dsl or ids"), d.NeedReason()); err != nil {
		return nil, err
	}
	decision := Decision{Action: d.Action, NotBefore: d.NotBefore, Operator: access.FromContext(ctx).Name, Reason: d.Reason}
	if err := decision.CheckTime(time.Now()); err != nil {
		return nil, system.InputError{Err: err}
	}
	messages, unknown, err := o.selected(ctx, d)
	if err != nil {
		return nil, err
	}
	out := &DecideOutput{WaitingDecided{Outcome: operation.NewOutcome()}}
	out.Body.Unknown = append(out.Body.Unknown, unknown[:min(len(unknown), eventfilter.MaxUnknown)]...)
	for _, m := range messages {
		out.Body.Find(m.Queue, m.sequence)
	}
	// Messages that became due do not wait any more.
	if d.Expect == nil || d.DryRun || len(messages) > *d.Expect {
		err = d.Check(len(messages), "message")
	}
	if err != nil || d.DryRun {
		return out, err
	}
	result, missing, err := Decide(ctx, o.system, decision, messages)
	out.Body.Done, out.Body.Gone, out.Body.Missing = len(result.Taken), len(result.Gone), missing
	return out, out.Body.Unfinished(err, "message")
}

// selected returns the waiting messages of a decision that the caller may see, and
// whose queue it may use.
func (o operations) selected(ctx context.Context, d WaitingDecision) ([]WaitingMessage, []string, error) {
	node, err := d.Chosen(ctx, o.system)
	if err != nil {
		return nil, nil, err
	}
	store, err := o.visible(ctx)
	if err != nil {
		return nil, nil, err
	}
	return Select(ctx, store, nil, node, eventfilter.SortedIDs(d.IDs), time.Now())
}

// page returns the query of a page, where the page begins, and the events that the caller may see.
func (o operations) page(ctx context.Context, in *PageInput) (query kql.Node, begin int, store eventfilter.VisibleEvents, err error) {
	sel, err := in.Selection(ctx, o.system)
	if err == nil {
		begin, err = operation.ParseOffset(in.Cursor)
	}
	if err == nil {
		store, err = o.visible(ctx)
	}
	return sel.Query, begin, store, err
}

// visible returns the store as the caller may see it, with the events of messages that began to
// wait just now.
func (o operations) visible(ctx context.Context) (eventfilter.VisibleEvents, error) {
	store, err := o.system.Store(ctx)
	if err == nil {
		err = store.Refresh(ctx)
	}
	if err != nil {
		return eventfilter.VisibleEvents{}, err
	}
	return eventfilter.Visible(ctx, o.system)
}
