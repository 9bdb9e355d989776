package subscriptions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/poster"
	"github.com/watershipmq/watership/subscription"
)

// Request describes a new subscription.
type Request struct {
	Name  string `json:"name" minLength:"1" maxLength:"100" doc:"Letters, digits, dots, dashes and underscores"`
	Query string `json:"query" maxLength:"4000" doc:"KQL; without event.action it finds published events"`
	From  string `json:"from" maxLength:"600" doc:"start, now, a position, or a time such as 2026-01-31T12:00:00Z or now-1h"`

	Upcast string `json:"upcast,omitempty" maxLength:"65536" doc:"Program in the language of jq that changes former versions of messages before they are delivered: its input and its output have body, headers, properties, exchange and routing_key. A message for which it fails is poison. It needs the permission to read bodies."`

	// Either Queue or URL.
	Queue      string `json:"queue,omitempty" maxLength:"255" doc:"Queue to deliver to; or url"`
	URL        string `json:"url,omitempty" maxLength:"2000" doc:"URL to post to; or queue"`
	MaxBacklog *int   `json:"max_backlog,omitempty" minimum:"0" maximum:"1000000000" doc:"Ready messages in the queue at which deliveries wait; 0: no limit; default: 10000"`

	OnPoison    string `json:"on_poison,omitempty" enum:"park,park-stream,stop" doc:"What happens to a message that cannot be delivered; with park-stream the later messages of its stream are parked, too, until it is delivered or dropped; default: park"`
	Attempts    *int   `json:"attempts,omitempty" minimum:"0" maximum:"10000" doc:"Calls of a URL until a message is poison; 0: no limit; default: 8"`
	By          string `json:"by,omitempty" enum:"stream,position" doc:"Of a URL: stream delivers streams side by side, each in order; position, the default, delivers one event after another"`
	Concurrency int    `json:"concurrency,omitempty" minimum:"0" maximum:"200" doc:"Calls at a time, by stream; 0: 10"`
}

// DefaultAttempts is the number of calls of a URL until a message is poison.
const DefaultAttempts = 8

// Service works with the subscriptions of a System.
type Service struct{ System *system.System }

// Caller is the creator of a subscription.
type Caller struct {
	Name string
	Zone *time.Location // of times without a zone; nil: the zone of the machine

	// Restrict limits a query to the events that the caller may see; nil: no limits.
	Restrict func(kql.Node) (kql.Node, error)
}

// Subscribe creates a subscription. Mistakes are InputErrors.
func (s Service) Subscribe(ctx context.Context, r Request, by Caller) (Subscription, error) {
	sub, from, err := s.subscription(r, by)
	if err != nil {
		return Subscription{}, err
	}
	all, err := s.System.Subscriptions(ctx)
	if err != nil {
		return Subscription{}, err
	}
	created, err := all.Create(ctx, sub, from)
	if err != nil {
		return Subscription{}, inputError(err)
	}
	return view(ctx, all, created)
}

func (s Service) networks() []netip.Prefix { return s.System.Settings().Subscriptions.PrivateNetworks }

// subscription returns the subscription of a request.
func (s Service) subscription(r Request, by Caller) (sub subscription.Subscription, from subscription.From, err error) {
	sub = subscription.Subscription{
		Name: r.Name, CreatedBy: by.Name, OnPoison: subscription.OnPoison(r.OnPoison), Concurrency: r.Concurrency,
		Upcast: subscription.Upcast{Program: r.Upcast},
	}
	if sub.By, err = orderOf(r.By); err != nil {
		return sub, from, err
	}
	if sub.Target, err = r.target(s.networks()); err != nil {
		return sub, from, err
	}
	if sub.Query, err = s.query(r.Query, by); err != nil {
		return sub, from, err
	}
	if attempts := r.attempts(); attempts > 0 {
		policy := subscription.Attempts(attempts)
		sub.Policy = &policy
	}
	from, err = subscription.ParseFrom(r.From, time.Now().In(cmp.Or(by.Zone, time.Local)))
	return sub, from, inputError(err)
}

// attempts returns the number of calls of a URL; 0: no limit.
func (r Request) attempts() int {
	switch {
	case r.Attempts != nil:
		return *r.Attempts
	case r.URL != "":
		return DefaultAttempts
	}
	return 0
}

// query returns a query within the limits of the caller.
func (s Service) query(text string, by Caller) (string, error) {
	node, err := s.System.ParseQueryIn(text, cmp.Or(by.Zone, time.Local))
	if err == nil && by.Restrict != nil {
		node, err = by.Restrict(node)
	}
	if err != nil {
		return "", err
	}
	if _, all := node.(kql.All); all {
		return "", nil
	}
	return node.String(), nil
}

// target returns the target of a request. URLs may lead to the networks, in addition to the
// internet.
func (r Request) target(networks []netip.Prefix) (subscription.Target, error) {
	switch {
	case (r.Queue == "") == (r.URL == ""):
		return subscription.Target{}, system.InputError{Err: errors.New("expected a queue or a URL to deliver to")}
	case r.URL != "":
		if err := poster.CheckURL(r.URL, networks); err != nil {
			return subscription.Target{}, system.InputError{Err: err}
		}
		return subscription.Target{Kind: subscription.ToURL, URL: r.URL}, nil
	}
	t := subscription.Target{Kind: subscription.ToQueue, Queue: r.Queue}
	if r.MaxBacklog == nil {
		return t, nil
	}
	backlog, err := maxBacklog(*r.MaxBacklog)
	t.MaxBacklog = backlog
	return t, err
}

// maxBacklog returns the MaxBacklog of a target. A request has 0 for no limit.
func maxBacklog(requested int) (int, error) {
	switch {
	case requested < 0:
		return 0, system.InputError{Err: fmt.Errorf("a backlog of %d messages: expected 1 or more, or 0 for no limit", requested)}
	case requested == 0:
		return -1, nil
	}
	return requested, nil
}

// List returns the subscriptions, sorted by name.
func (s Service) List(ctx context.Context) ([]Subscription, error) {
	all, err := s.System.Subscriptions(ctx)
	if err != nil {
		return nil, err
	}
	list, err := all.List(ctx)
	views := []Subscription{}
	for _, sub := range list {
		one, oneErr := view(ctx, all, sub)
		views, err = append(views, one), errors.Join(err, oneErr)
	}
	return views, err
}

// view returns the view of a subscription as the store has it now: with its progress, and with the
// number of messages that are parked now. Its checkpoint counts all that were.
func view(ctx context.Context, all *subscription.Subscriptions, sub subscription.Subscription) (Subscription, error) {
	progress, err := all.Progress(ctx, sub)
	v := viewOf(sub, progress, time.Now())
	if err != nil || v.Parked == 0 {
		return v, err
	}
	parked, err := all.Parked(ctx, sub.Name)
	v.Parked = int64(len(parked))
	return v, err
}

// Show returns a subscription with the number of events that it has not delivered yet.
func (s Service) Show(ctx context.Context, name string) (Subscription, error) {
	all, err := s.System.Subscriptions(ctx)
	if err != nil {
		return Subscription{}, err
	}
	sub, err := all.Get(ctx, name)
	if err != nil {
		return Subscription{}, inputError(err)
	}
	v, err := view(ctx, all, sub)
	if err != nil {
		return v, err
	}
	missing, err := all.Missing(ctx, sub)
	v.LagEvents = &missing
	return v, err
}

// Action is what an operator does to a subscription.
type Action string

// The actions.
const (
	Pause  Action = "pause"
	Resume Action = "resume"
	Rewind Action = "rewind"
	Delete Action = "delete"

	// ResumeAfterRemoved is Resume without the events that retention has removed.
	ResumeAfterRemoved Action = "skip-removed"
)

// Change is an action with its details.
type Change struct {
	Action Action
	Reason string // of Pause
	To     string // of Rewind, as Request.From
}

// Change does what an operator decided, and returns the subscription, which is zero after its
// deletion.
func (s Service) Change(ctx context.Context, name string, c Change, by Caller) (Subscription, error) {
	all, err := s.System.Subscriptions(ctx)
	if err != nil {
		return Subscription{}, err
	}
	var sub subscription.Subscription
	switch c.Action {
	case Pause:
		if err = reason.Need(c.Reason); err != nil {
			err = system.InputError{Err: err}
		} else {
			sub, err = all.Pause(ctx, name, by.Name, c.Reason)
		}
	case Resume:
		sub, err = all.Resume(ctx, name, by.Name)
	case ResumeAfterRemoved:
		sub, err = all.ResumeAfterRemoved(ctx, name, by.Name)
	case Rewind:
		var to subscription.From
		if to, err = subscription.ParseFrom(c.To, time.Now().In(cmp.Or(by.Zone, time.Local))); err == nil {
			sub, err = all.Rewind(ctx, name, by.Name, to)
		}
	case Delete:
		return Subscription{}, inputError(all.Delete(ctx, name))
	default:
		err = system.InputErrorf("no action %q", c.Action)
	}
	if err != nil {
		return Subscription{}, inputError(err)
	}
	return view(ctx, all, sub)
}

// Parked returns the parked messages of a subscription, sorted by position.
func (s Service) Parked(ctx context.Context, name string) ([]ParkedMessage, error) {
	all, err := s.System.Subscriptions(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := all.Get(ctx, name); err != nil {
		return nil, inputError(err)
	}
	list, err := all.Parked(ctx, name)
	views := []ParkedMessage{}
	for _, p := range list {
		views = append(views, parkedOf(p))
	}
	return views, err
}

// ChangeParked lets parked messages be delivered again, or drops them from the list, and
// returns their number. Without positions it is all of them.
func (s Service) ChangeParked(ctx context.Context, name string, drop bool, positions []string, by Caller) (int, error) {
	all, err := s.System.Subscriptions(ctx)
	if err != nil {
		return 0, err
	}
	if _, err := all.Get(ctx, name); err != nil {
		return 0, inputError(err)
	}
	var changed int
	if drop {
		changed, err = all.Drop(ctx, name, positions)
	} else {
		changed, err = all.RetryParked(ctx, name, by.Name, positions)
	}
	return changed, inputError(err)
}

func inputError(err error) error {
	var mistake *subscription.Error
	if errors.As(err, &mistake) {
		return system.InputError{Err: err}
	}
	return err
}
