package waiting

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/render/wording"
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
		Text: "A message that is due in the meantime is left out. A cancelled one gets a discarded event and can still be replayed. " +
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
	sel, err := in.Selection(ctx, o.system)
	if err != nil {
		return nil, err
	}
	begin, err := operation.ParseOffset(in.Cursor)
	if err != nil {
		return nil, err
	}
	store, err := o.visible(ctx)
	if err != nil {
		return nil, err
	}
	messages, _, err := Select(ctx, store, OrdersOf(o.system.Settings()), sel.Query, nil, time.Now())
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
	Cursor   string         `json:"cursor,omitempty" doc:"Continues after this page; none: this is the last"`
}

func (o operations) group(ctx context.Context, in *PageInput) (*GroupsOutput, error) {
	sel, err := in.Selection(ctx, o.system)
	if err != nil {
		return nil, err
	}
	begin, err := operation.ParseOffset(in.Cursor)
	if err != nil {
		return nil, err
	}
	store, err := o.visible(ctx)
	if err != nil {
		return nil, err
	}
	groups, err := Groups(ctx, store, OrdersOf(o.system.Settings()), sel.Query, time.Now())
	if err == nil && len(groups) == 0 {
		err = o.system.CheckStore(ctx)
	}
	page := WaitingGroupPage{Groups: []WaitingGroup{}}
	for _, g := range groups {
		page.Messages += g.Count
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
	eventfilter.Filter
	DSL       map[string]any `json:"dsl,omitempty" doc:"Query in Elasticsearch's query DSL"`
	IDs       []string       `json:"ids,omitempty" maxItems:"10000" nullable:"false" doc:"Ids of messages or events"`
	Action    Action         `json:"action" enum:"now,postpone,cancel" doc:"now: the next attempt follows at once; postpone: it follows at not_before; cancel: none follows"`
	NotBefore time.Time      `json:"not_before,omitzero" doc:"Time of the next attempt, for postpone: up to 30 days from now, and the attempt follows up to a second later"`
	Reason    string         `json:"reason" minLength:"1" maxLength:"1000" pattern:"\\S" doc:"Why"`
	AtMost    *int           `json:"at_most,omitempty" minimum:"0" nullable:"true" doc:"Change nothing if more messages match"`
	UpTo      int64          `json:"up_to,omitempty" minimum:"0" doc:"Highest event.sequence that the caller knows, such as up_to of a dry run; messages that began to wait later are left out; 0: all messages"`
	DryRun    bool           `json:"dry_run,omitempty" doc:"Change nothing"`
}

// DecideOutput has the result.
type DecideOutput struct{ Body WaitingDecided }

// WaitingDecided is the result of a WaitingDecision.
type WaitingDecided struct {
	Matched int            `json:"matched" doc:"Waiting messages that matched"`
	Queues  map[string]int `json:"queues" doc:"The same, by queue"`
	UpTo    int64          `json:"up_to" doc:"Highest event.sequence of the events since which they wait"`
	Unknown []string       `json:"unknown" nullable:"false" doc:"Ids of messages that do not wait, at most 1000 of them"`
	Decided int            `json:"decided" doc:"Messages that were taken out of their delay queues"`
	Gone    int            `json:"gone" doc:"Messages that had left them: their next attempt has begun"`
	Missing int            `json:"missing" doc:"Events of decided messages that the store does not have yet"`
}

func (o operations) decide(ctx context.Context, in *DecideInput) (*DecideOutput, error) {
	d, caller := in.Body, access.FromContext(ctx)
	name := "waiting " + string(d.Action)
	if d.DryRun {
		name += " (dry run)"
	}
	object := d.Query
	if len(d.IDs) > 0 {
		object = wording.Plural(len(d.IDs), "id")
	}
	access.Describe(ctx, access.Action{Name: name, Object: object, Reason: d.Reason})
	if !d.HasQuery() && len(d.IDs) == 0 && len(d.DSL) == 0 {
		return nil, problem.BadRequest("expected query, dsl or ids", `Give the query "*" for every message that waits.`)
	}
	decision := Decision{Action: d.Action, NotBefore: d.NotBefore, Operator: caller.Name, Reason: d.Reason}
	if err := decision.Check(time.Now()); err != nil {
		return nil, system.InputError{Err: err}
	}
	messages, unknown, err := o.selected(ctx, d)
	if err != nil {
		return nil, err
	}
	out := &DecideOutput{WaitingDecided{Matched: len(messages), Queues: map[string]int{}, Unknown: append([]string{}, unknown[:min(len(unknown), eventfilter.MaxUnknown)]...)}}
	for _, m := range messages {
		out.Body.Queues[m.Queue]++
		out.Body.UpTo = max(out.Body.UpTo, m.sequence)
	}
	if d.AtMost != nil && len(messages) > *d.AtMost {
		return nil, &problem.Problem{
			Status: http.StatusConflict, Detail: fmt.Sprintf("%s, at most %d expected: nothing was changed", wording.PluralVerb(len(messages), "message", "matches", "match"), *d.AtMost),
			Remedy: "Look at the messages, and send their number.",
		}
	}
	if d.DryRun {
		return out, nil
	}
	result, missing, err := Decide(ctx, o.system, decision, messages)
	out.Body.Decided, out.Body.Gone, out.Body.Missing = len(result.Taken), len(result.Gone), missing
	return out, err
}

// selected returns the waiting messages of a decision that the caller may see, and
// whose queue it may use.
func (o operations) selected(ctx context.Context, d WaitingDecision) ([]WaitingMessage, []string, error) {
	node, err := d.Node(ctx, o.system, eventfilter.TextOfDSL(d.DSL))
	if err != nil {
		return nil, nil, err
	}
	store, err := o.visible(ctx)
	if err != nil {
		return nil, nil, err
	}
	if d.UpTo > 0 {
		node = kql.And{node, history.UpTo(d.UpTo)}
	}
	return Select(ctx, store, nil, node, eventfilter.SortedIDs(d.IDs), time.Now())
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
