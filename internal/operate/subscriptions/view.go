// Package subscriptions does with subscriptions what commands and the HTTP API offer.
package subscriptions

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/subscription"
)

// Subscription is a subscription as commands and the HTTP API show it.
type Subscription struct {
	Name            string             `json:"name"`
	Query           string             `json:"query" doc:"With full names and absolute times, and within the limits of its creator"`
	Target          SubscriptionTarget `json:"target"`
	Upcast          string             `json:"upcast,omitempty" doc:"Program in the language of jq that changes former versions of messages before they are delivered"`
	UpcastVersion   int64              `json:"upcast_version,omitempty" doc:"Number of the program, counted with each change"`
	OnPoison        string             `json:"on_poison" enum:"park,park-stream,stop"`
	By              string             `json:"by,omitempty" enum:"stream" doc:"Streams are delivered side by side, each in order; none: one event after another"`
	Concurrency     int                `json:"concurrency,omitempty" doc:"Calls at a time, by stream"`
	Attempts        int                `json:"attempts" doc:"Calls of a URL until a message is poison; 0: no limit"`
	Delays          []string           `json:"delays,omitempty" doc:"Before the next attempts; the last one repeats"`
	State           string             `json:"state" enum:"active,paused,stopped"`
	Reason          string             `json:"reason,omitempty" doc:"Of the state"`
	ReasonCode      Reason             `json:"reason_code,omitempty" enum:"by_operator,events_removed,message_refused" doc:"Kind of the reason"`
	ChangedBy       string             `json:"changed_by,omitempty" doc:"Who changed it last"`
	Changed         *time.Time         `json:"changed,omitempty"`
	Created         time.Time          `json:"created"`
	CreatedBy       string             `json:"created_by"`
	Position        string             `json:"position" doc:"Deliveries continue after it"`
	Delivered       int64              `json:"delivered"`
	Parked          int64              `json:"parked" doc:"Messages that are parked now"`
	CaughtUp        bool               `json:"caught_up" doc:"All stored events are delivered"`
	LagSeconds      float64            `json:"lag_seconds" doc:"Age of the events that are not delivered yet"`
	LagEvents       *int64             `json:"lag_events,omitempty" doc:"Number of events that are not delivered yet; none: the list leaves it out"`
	Waiting         subscription.Cause `json:"waiting,omitempty" enum:"unattended,queue_missing,queue_refuses,queue_backlog,body_pending,store_error,broker_error,target_error,error" doc:"Why nothing is delivered"`
	WaitingError    string             `json:"waiting_error,omitempty" doc:"Error of the target, the store or RabbitMQ"`
	Unattended      bool               `json:"unattended,omitempty" doc:"No process has run it for a minute, although it is active"`
	UnattendedSince *time.Time         `json:"unattended_since,omitempty" doc:"Last sign of a process that ran it"`
	RemovedTo       string             `json:"removed_to,omitempty" doc:"Retention removed events up to this position before they were delivered, which stopped it: resume it with skip-removed"`
	Checkpoint      *time.Time         `json:"checkpoint,omitempty" doc:"When the numbers were saved"`
}

// Reason is the kind of the reason why a subscription is paused or stopped.
type Reason string

// The reasons.
const (
	ByOperator     Reason = "by_operator"
	EventsRemoved  Reason = "events_removed"  // by retention, before they were delivered
	MessageRefused Reason = "message_refused" // by the target, or it cannot be read
)

func reasonOf(sub subscription.Subscription) Reason {
	switch {
	case sub.State == subscription.Paused:
		return ByOperator
	case sub.State == subscription.Stopped && sub.RemovedUpTo > 0:
		return EventsRemoved
	case sub.State == subscription.Stopped:
		return MessageRefused
	}
	return ""
}

// SubscriptionTarget is the target of a subscription.
type SubscriptionTarget struct {
	Kind       string `json:"kind" enum:"queue,url,handler"`
	Queue      string `json:"queue,omitempty"`
	URL        string `json:"url,omitempty" doc:"Its scheme and host: the rest may be secret"`
	MaxBacklog int    `json:"max_backlog,omitempty" doc:"Ready messages in the queue at which deliveries wait; 0: no limit"`
}

// String describes the target.
func (t SubscriptionTarget) String() string {
	switch t.Kind {
	case string(subscription.ToQueue):
		return "queue " + t.Queue
	case string(subscription.ToURL):
		return t.URL
	}
	return "a handler in Go"
}

// viewOf returns the view of a subscription.
func viewOf(sub subscription.Subscription, progress subscription.Progress, now time.Time) Subscription {
	v := Subscription{
		Name: sub.Name, Query: sub.Query, OnPoison: string(sub.OnPoison),
		Upcast: sub.Upcast.Program, UpcastVersion: sub.Upcast.Version,
		State: string(sub.State), Reason: sub.Reason, ReasonCode: reasonOf(sub), ChangedBy: sub.ChangedBy, Changed: timeOf(sub.Changed), Created: sub.Created, CreatedBy: sub.CreatedBy,
		Position: subscription.FormatPosition(sub.Checkpoint.Position), Delivered: sub.Checkpoint.Delivered, Parked: sub.Checkpoint.Parked,
		CaughtUp: progress.CaughtUp, LagSeconds: progress.Lag.Seconds(), Waiting: sub.Checkpoint.Waiting, WaitingError: sub.Checkpoint.Error, Checkpoint: timeOf(sub.Checkpoint.Time),
		Target: SubscriptionTarget{Kind: string(sub.Target.Kind), Queue: sub.Target.Queue},
	}
	if sub.By != "" {
		v.By, v.Concurrency = string(sub.By), cmp.Or(sub.Concurrency, subscription.DefaultConcurrency)
	}
	if sub.Policy != nil {
		v.Attempts = sub.Policy.MaxAttempts()
		for _, delay := range sub.Policy.AllDelays() {
			v.Delays = append(v.Delays, wording.Duration(delay))
		}
	}
	if sub.RemovedUpTo > 0 {
		v.RemovedTo = subscription.FormatPosition(eventstore.Cursor{Sequence: sub.RemovedUpTo})
	}
	var since time.Time
	if since, v.Unattended = sub.Unattended(now); v.Unattended {
		v.Waiting, v.WaitingError, v.UnattendedSince = subscription.Unattended, "", timeOf(since)
	}
	switch sub.Target.Kind {
	case subscription.ToURL:
		v.Target.URL = sub.Target.String()
	case subscription.ToQueue:
		if v.Target.MaxBacklog = max(sub.Target.MaxBacklog, 0); sub.Target.MaxBacklog == 0 {
			v.Target.MaxBacklog = subscription.DefaultMaxBacklog
		}
	}
	return v
}

// outputOf returns a subscription as the caller may see it: a program may have parts of bodies, and its errors quote them.
func outputOf(ctx context.Context, v Subscription) *SubscriptionOutput {
	if access.ShowsBodies(ctx) {
		return &SubscriptionOutput{v}
	}
	if v.Upcast != "" {
		v.Upcast = access.HiddenProgram
	}
	v.Reason = WithoutBody(v.Reason)
	return &SubscriptionOutput{v}
}

// WithoutBody returns the reason why a subscription is stopped without the error of its upcast, which may quote a body.
func WithoutBody(reason string) string {
	failed := subscription.UpcastFailed.Text("")
	if before, _, found := strings.Cut(reason, failed); found {
		return before + failed
	}
	return reason
}

func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// ParkedMessage is a parked message.
type ParkedMessage struct {
	Position  string `json:"position" doc:"Names it for retry and drop"`
	EventID   string `json:"event_id,omitempty" doc:"Of its event in the store; none: its document cannot be read"`
	Action    string `json:"action,omitempty"`
	MessageID string `json:"message_id,omitempty"`
	Stream    string `json:"stream,omitempty" doc:"Stream of the message"`

	Cause subscription.Cause `json:"cause" enum:"target_error,attempts_exhausted,message_refused,headers_too_long,body_missing,event_missing,upcast_failed,unreadable,redacted,erased,stream_held" doc:"Why it is parked"`
	Error string             `json:"error,omitempty" doc:"Of the target or RabbitMQ, or about the document"`
	Time  time.Time          `json:"time"`
	Retry bool               `json:"retry,omitempty" doc:"It is about to be delivered again"`
}

func parkedOf(p subscription.Parked) ParkedMessage {
	return ParkedMessage{subscription.FormatPosition(p.Position), p.EventID, string(p.Action), p.MessageID, p.Stream, p.Cause, p.Error, p.Time, p.Retry}
}
