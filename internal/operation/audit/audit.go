// Package audit publishes the events about actions of people, for a server and for commands that act
// without one.
package audit

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// Publish publishes the `audited` event of a record, as other events are: it is signed, and in the
// store once the indexer has read it. It returns when the broker has confirmed the event.
func Publish(ctx context.Context, sys *system.System, to *rabbit.Publisher, r access.Record) error {
	none := schemas.Envelope{}
	state := schemas.State{Fingerprint: none.Fingerprint(), EventID: "audit:" + rand.Text(), Time: r.Time}
	state.Audit.User, state.Audit.Method = r.Identity.Name, string(r.Identity.Method)
	state.Audit.Client = r.Identity.Client
	if r.Identity.Address.IsValid() {
		state.Audit.Address = r.Identity.Address.String()
	}
	state.Audit.Operation, state.Audit.Object, state.Audit.Reason = r.Action.Name, r.Action.Object, r.Action.Reason
	if !r.Done() {
		state.Audit.Refused = true
		state.Failure = schemas.Failure{Type: fmt.Sprintf("HTTP %d", r.Status), Message: r.Problem}
	}
	err := to.Publish(ctx, sys.Sign(rabbit.Message{
		Exchange: sys.Topology().Events(), RoutingKey: string(schemas.Audited), Publishing: wire.DefaultFrameMax.Wrap(none, state),
	}))
	if err != nil {
		return fmt.Errorf("publishing the %s event: %w", schemas.Audited, err)
	}
	return nil
}

// Recorder publishes the events of commands, on a connection that it opens for the first of them.
type Recorder struct{ System *system.System }

// Ready implements access.Recorder.
func (Recorder) Ready() error { return nil }

// Record implements access.Recorder.
func (r Recorder) Record(ctx context.Context, record access.Record) error {
	publisher, err := r.System.Publisher(ctx)
	if err != nil {
		return err
	}
	return Publish(ctx, r.System, publisher, record)
}
