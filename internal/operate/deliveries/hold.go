package deliveries

import (
	"context"
	"net/http"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/topology/pause"
	"github.com/watershipmq/watership/schemas"
)

// The operations by which operators hold receivers.
var (
	HoldReceiver = operation.Declare[HoldInput, HoldOutput](operation.Operation{
		Method: http.MethodPost, Path: "/receivers/{queue}/hold", ID: "holdReceiver", Tag: "receivers", Role: access.Operator,
		Summary: "Hold a receiver in every process",
		Text:    "Requests that are under way end, and no others begin within seconds. Its messages wait in delay queues, and lose no attempt. The hold stays over restarts, until it is released.",
	})
	ReleaseReceiver = operation.Declare[HoldInput, HoldOutput](operation.Operation{
		Method: http.MethodPost, Path: "/receivers/{queue}/release", ID: "releaseReceiver", Tag: "receivers", Role: access.Operator,
		Summary: "Release a receiver that an operator holds", Text: "Its messages follow as their delays end, within 5 minutes or a tenth of the time of the hold.",
	})
)

// HoldInput names a receiver to hold or to release.
type HoldInput struct {
	Queue string `path:"queue" maxLength:"255" doc:"Queue of the route"`
	operation.IdempotencyKey
	Body HoldRequest
}

// HoldRequest names the receiver, and says why.
type HoldRequest struct {
	Receiver string `json:"receiver" minLength:"1" maxLength:"1000" doc:"Key of its messages (watership.receiver)"`
	operation.Bounds
}

// HoldOutput has the change.
type HoldOutput struct{ Body HoldChange }

// HoldChange is the change of a hold.
type HoldChange struct {
	Queue    string `json:"queue"`
	Receiver string `json:"receiver"`
	Matched  int    `json:"matched" doc:"1 if the request changes the receiver, 0 if it was as the request wants it"`
	Held     bool   `json:"held" doc:"An operator holds it now"`
	Unknown  bool   `json:"unknown" doc:"The record has no attempt at it, so that the name may be mistyped"`
}

func (o operations) hold(ctx context.Context, in *HoldInput) (*HoldOutput, error) {
	return o.change(ctx, in, true)
}

func (o operations) release(ctx context.Context, in *HoldInput) (*HoldOutput, error) {
	return o.change(ctx, in, false)
}

// change holds or releases a receiver, unless it is so already.
func (o operations) change(ctx context.Context, in *HoldInput, hold bool) (*HoldOutput, error) {
	name, caller, b := "release", access.FromContext(ctx), in.Body.Bounds
	if hold {
		name = "hold"
	}
	b.Describe(ctx, name, "receiver "+in.Body.Receiver+" of "+in.Queue)
	if !caller.MayQueue(in.Queue) {
		return nil, problem.NotAllowed(caller, "queue", in.Queue)
	}
	if hold {
		if err := b.NeedReason(); err != nil {
			return nil, err
		}
	}
	if err := o.checkRoute(in.Queue); err != nil {
		return nil, err
	}
	control, err := routes.Service{System: o.system}.Control(ctx)
	if err != nil {
		return nil, err
	}
	held, err := pause.Held(ctx, control.Publisher, control.Topology, in.Queue, in.Body.Receiver)
	if err != nil {
		return nil, err
	}
	out := &HoldOutput{HoldChange{Queue: in.Queue, Receiver: in.Body.Receiver, Held: held}}
	if held != hold {
		out.Body.Matched = 1
	}
	if hold {
		out.Body.Unknown = o.isUnknown(ctx, Key{in.Queue, in.Body.Receiver})
	}
	if err := b.Check(out.Body.Matched, "receiver"); err != nil || b.DryRun {
		return out, err
	}
	if held == hold && o.isRecordedAs(ctx, Key{in.Queue, in.Body.Receiver}, hold) { // a former request may have ended between RabbitMQ and the record
		return out, nil
	}
	out.Body.Held = hold
	why := reason.Decision{Operator: caller.Name, Reason: b.Reason}.Text()
	if hold {
		return out, control.Hold(ctx, in.Queue, in.Body.Receiver, why)
	}
	return out, control.Release(ctx, in.Queue, in.Body.Receiver, why)
}

// isUnknown reports whether the record has no attempt at a receiver. A hold needs no record: without an answer of the
// store within askTimeout it is false.
func (o operations) isUnknown(ctx context.Context, receiver Key) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	store, err := o.system.Store(ctx)
	if err != nil {
		return false
	}
	attempted, err := Finder{Store: store}.Attempted(ctx, kql.All{}, []Key{receiver})
	return err == nil && !attempted[receiver]
}

// isRecordedAs reports whether the record says that an operator holds a receiver, or that none does. Without an answer of
// the store within askTimeout it is false: a change that is recorded twice does no harm.
func (o operations) isRecordedAs(ctx context.Context, receiver Key, held bool) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	store, err := o.system.Store(ctx)
	if err != nil {
		return false
	}
	holds, err := Finder{Store: store}.held(ctx, Of(receiver.Queue, receiver.Name))
	_, found := holds[receiver]
	return err == nil && found == held
}

// askTimeout bounds the wait for an answer without which a request goes on.
const askTimeout = 5 * time.Second

// setHeld sets whether a receiver is held, as RabbitMQ says, with the reason of the record. Without an answer the record says it.
func (o operations) setHeld(ctx context.Context, r *ReceiverState) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	control, err := routes.Service{System: o.system}.Control(ctx)
	if err != nil {
		return
	}
	held, err := pause.Held(ctx, control.Publisher, control.Topology, r.Queue, r.Name)
	switch {
	case err != nil:
	case !held:
		r.Held = nil
	case r.Held == nil:
		r.Held = &Hold{Why: "the record does not say why"}
	}
}

// checkRoute returns an error for a route of the configuration that has no receivers. Other processes may have others.
func (o operations) checkRoute(queue string) error {
	for _, route := range o.system.Settings().Routes {
		if route.Queue == queue && route.Fairness.Key == "" {
			return system.InputErrorf("the route of queue %s has no fairness, and so no receivers", queue)
		}
	}
	return nil
}

// Hold says that an operator holds a receiver.
type Hold struct {
	Since *time.Time `json:"since,omitempty" doc:"None: it is not recorded"`
	Why   string     `json:"why" doc:"The reason, and the operator"`
}

// maxHolds bounds the changes of holds that are read, newest first.
const maxHolds = 2000

// held returns the receivers that operators hold, by those events of the record that match a query.
func (f Finder) held(ctx context.Context, query kql.Node) (map[Key]Hold, error) {
	query = kql.And{query, withActions(schemas.Paused, schemas.Resumed), kql.FieldIs("error.type", pause.ByOperator), kql.Exists{Field: kql.Pattern{Field}}}
	if f.Restrict != nil {
		var err error
		if query, err = f.Restrict(query); err != nil {
			return nil, err
		}
	}
	holds, latest := map[Key]Hold{}, map[Key]int64{} // sequences: clocks of operators differ
	for e, err := range storeread.Readable(f.Store.Events(ctx, eventstore.Selection{Query: query, Limit: maxHolds, WithoutBody: true})) {
		if err != nil {
			return nil, err
		}
		key := Key{e.Queue, e.Receiver}
		if e.Sequence < latest[key] {
			continue
		}
		latest[key] = e.Sequence
		if delete(holds, key); e.RecordedAction() == schemas.Paused {
			holds[key] = Hold{&e.Time, e.Failure.Message}
		}
	}
	return holds, nil
}
