package messages

import (
	"context"
	"errors"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/history/bodies"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/pipeline/bodyschema"
	"github.com/watershipmq/watership/schemas"
)

// InvalidMessage is a message whose body does not fit.
type InvalidMessage struct {
	Time        time.Time `json:"time" doc:"When the event happened"`
	Event       string    `json:"event" doc:"Id of an event of the message"`
	Fingerprint string    `json:"fingerprint"`
	MessageID   string    `json:"message_id,omitempty"`
	Exchange    string    `json:"exchange"`
	RoutingKey  string    `json:"routing_key"`
	Error       string    `json:"error" doc:"The first faults, each with its path and its rule"`
}

// Summary counts messages. Equal messages count once.
type Summary struct {
	Messages int    `json:"messages" doc:"Messages that were checked"`
	Failed   int    `json:"failed" doc:"Messages that do not fit"`
	Unknown  int    `json:"unknown" doc:"Messages that were not checked, as no event has their body"`
	More     bool   `json:"more,omitempty" doc:"There are more messages than the limit"`
	Schema   string `json:"schema" doc:"Name of the file of the schema"`
}

// ValidationConfig has the events to check.
type ValidationConfig struct {
	Store        bodies.Store // its events have their bodies
	Fingerprints schemas.Fingerprints
	Schema       *bodyschema.Schema // that bodies have to fit

	// Check checks messages in place of Schema. It returns the faults of a message; "": it fits. An error ends the
	// run.
	Check func(ctx context.Context, e schemas.Event) (faults string, err error)

	Limit int // most messages; 0: all

	// Checked is called after each message. Its error ends the run. Nil: no call.
	Checked func() error
}

// lookup is the number of messages whose bodies are looked up at once. Their fingerprints fit
// into a query of the HTTP API.
const lookup = 25

// Run checks each message to which an event of a selection belongs, and calls each with those
// that do not fit. An error of each ends it.
func Run(ctx context.Context, cfg ValidationConfig, sel eventstore.Selection, each func(InvalidMessage) error) (Summary, error) {
	r := &run{ValidationConfig: cfg, each: each}
	if cfg.Check == nil {
		r.Check, r.summary.Schema = bySchema(cfg.Schema), cfg.Schema.Name()
	}
	for e, err := range storeread.Readable(cfg.Store.Events(ctx, sel)) {
		if err != nil {
			return r.summary, err
		}
		if e.RecordedAction().OfNoMessage() || !r.seen.Add(storeread.Of(e.Fingerprint)) {
			continue
		}
		if r.summary.More = cfg.Limit > 0 && r.taken == cfg.Limit; r.summary.More {
			break
		}
		if err := r.take(ctx, e); err != nil {
			return r.summary, err
		}
	}
	return r.summary, errors.Join(r.findBodies(ctx), ctx.Err())
}

type run struct {
	ValidationConfig
	summary Summary
	each    func(InvalidMessage) error
	seen    storeread.Set
	taken   int
	lacking []schemas.Event
}

// take checks an event, or keeps it until others without a body are looked up.
func (r *run) take(ctx context.Context, e schemas.Event) error {
	r.taken++
	if e.BodyIn == schemas.BodyHere {
		return r.check(ctx, e)
	}
	if r.lacking = append(r.lacking, e); len(r.lacking) < lookup {
		return nil
	}
	return r.findBodies(ctx)
}

func (r *run) findBodies(ctx context.Context) error {
	missing := bodies.NewMissing(r.Fingerprints)
	for i := range r.lacking {
		missing.Add(ctx, &r.lacking[i])
	}
	if err := missing.FindStored(ctx, r.Store); err != nil {
		return err
	}
	for _, e := range r.lacking {
		if e.BodyIn != schemas.BodyHere {
			r.summary.Unknown++
		} else if err := r.check(ctx, e); err != nil {
			return err
		}
	}
	r.lacking = r.lacking[:0]
	return nil
}

// bySchema returns the ValidationConfig.Check of a schema.
func bySchema(schema *bodyschema.Schema) func(context.Context, schemas.Event) (string, error) {
	return func(_ context.Context, e schemas.Event) (string, error) {
		body := e.Envelope.Body
		if text, isText := e.Envelope.BodyText(); isText {
			body = text
		}
		var unfit *bodyschema.Error
		if errors.As(schema.Check(body), &unfit) {
			return unfit.List(), nil
		}
		return "", nil
	}
}

func (r *run) check(ctx context.Context, e schemas.Event) error {
	r.summary.Messages++
	faults, err := r.Check(ctx, e)
	if err == nil && r.Checked != nil {
		err = r.Checked()
	}
	if err != nil || faults == "" {
		return err
	}
	r.summary.Failed++
	return r.each(InvalidMessage{
		Time: e.Time, Event: e.EventID, Fingerprint: e.Fingerprint, MessageID: e.Envelope.Properties.MessageID,
		Exchange: e.Envelope.Exchange, RoutingKey: e.Envelope.RoutingKey, Error: faults,
	})
}
