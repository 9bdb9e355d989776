package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/schemas"
)

// auditor publishes `audited` events, as other events are: they are signed, and in the
// store once the indexer has read them.
type auditor struct {
	*system.System
	conn      *rabbit.Connection
	publisher *rabbit.Publisher
}

// Ready implements access.Recorder.
func (a *auditor) Ready() error {
	if a.publisher == nil {
		return errors.New("there is no connection to RabbitMQ yet")
	}
	return a.conn.Err()
}

// Record implements access.Recorder. It returns when the broker has confirmed the event.
func (a *auditor) Record(ctx context.Context, r access.Record) error {
	if err := a.Ready(); err != nil {
		return err
	}
	none := schemas.Envelope{}
	state := schemas.State{Fingerprint: none.Fingerprint(), EventID: "audit:" + rand.Text(), Time: r.Time}
	state.Audit.User, state.Audit.Method, state.Audit.Address = r.Identity.Name, string(r.Identity.Method), r.Identity.Address.String()
	state.Audit.Operation, state.Audit.Object, state.Audit.Reason = r.Action.Name, r.Action.Object, r.Action.Reason
	if !r.Done() {
		state.Audit.Refused = true
		state.Failure = schemas.Failure{Type: fmt.Sprintf("HTTP %d", r.Status), Message: r.Problem}
	}
	err := a.publisher.Publish(ctx, a.Sign(rabbit.Message{
		Exchange: a.Topology().Events(), RoutingKey: string(schemas.Audited), Publishing: schemas.DefaultFrameMax.Wrap(none, state),
	}))
	if err != nil {
		return fmt.Errorf("publishing the %s event: %w", schemas.Audited, err)
	}
	return nil
}
