package server

import (
	"context"
	"errors"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/audit"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/system"
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
	return audit.Publish(ctx, a.System, a.publisher, r)
}
