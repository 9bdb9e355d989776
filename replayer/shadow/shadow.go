// Package shadow gives messages of the history to a candidate version of a handler, and
// compares its results with the record: whether it handles each message, the errors,
// and the outgoing messages. It publishes nothing, and records no event.
//
//	report, err := shadow.Run(ctx, shadow.Config{
//		Store: store, Query: "action: handled and queue: orders",
//		Handler: func(ctx context.Context, m shadow.Message) (shadow.Result, error) {
//			outgoing, err := route.Call(ctx, m.Envelope) // a pipeline.Route
//			return shadow.Result{Outgoing: outgoing}, err
//		},
//	})
//
// The handler itself must not change anything that matters: its context says that the call is
// one of a shadow replay, see IsShadow.
package shadow

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/render/jsondiff"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/schemas"
)

// Store reads the events of messages.
type Store interface {
	Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error]
	Summaries(ctx context.Context, selection eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error]
	HighestSequence(ctx context.Context) (int64, error)
}

// Message is a message of the history at a queue.
type Message struct {
	Envelope    schemas.Envelope
	Fingerprint string
	EventID     string // of the event that the query selects
	Queue       string // whose handler is called
	Replay      string // job whose copy of the message the queue reported about last; "": none
}

// Result is the result of a handler.
type Result struct {
	Outgoing []schemas.Envelope
	Unlisted bool // it is not known which messages the handler would publish
}

// Handler handles a message as the candidate version does. Its error has the meaning of
// package retry; with retry.Unavailable the message is tried again a few times, and then the
// run ends. The context has the message and the attempt, as in a route.
type Handler func(ctx context.Context, m Message) (Result, error)

// Config configures a run. Store, Query and Handler are required.
type Config struct {
	Store   Store
	Query   string // KQL, as eventstore.ParseQuery takes it; times without a zone are in UTC, and those of a run with State absolute
	DSL     []byte // query in the language of the store, as JSON; nil: none
	Handler Handler

	Queues      []string // whose handler is the candidate; nil: every queue that has reported
	Sample      float64  // part of the messages, above 0 and up to 1; 0: all
	Limit       int      // messages; 0: all
	Rate        float64  // calls a second; 0: no limit
	Concurrency int      // calls at a time; 0: 4

	// Ignore are paths of outgoing messages that always differ, such as .body.created_at or
	// .body.items[].id. See package transform for the members of a message.
	Ignore []string

	// Causation is the header of outgoing messages with the message id or the fingerprint of
	// the message whose handler published them. "": causation-id.
	Causation string

	Fingerprints schemas.Fingerprints

	// State is a file by which an interrupted run is resumed, with the same configuration and
	// the same Candidate, which is any text. "": none.
	State     string
	Candidate string

	Progress func(Report) // called after some messages, never concurrently; may be nil
}

type shadowKey struct{}

// IsShadow reports whether a handler is called by a shadow replay, so that it must have no
// effects.
func IsShadow(ctx context.Context) bool { return ctx.Value(shadowKey{}) != nil }

const (
	defaultConcurrency = 4
	defaultCausation   = "causation-id"
	chunkSize          = 100 // messages between two checkpoints
)

// run is one run.
type run struct {
	Config
	query   kql.Node
	ignored []jsondiff.Path
	limiter *rate.Limiter
	state   state
	seen    map[string]bool // fingerprints
}

// Run gives the messages to the handler and returns the report. Differences are no error. After
// an error the report has the messages so far.
func Run(ctx context.Context, cfg Config) (Report, error) {
	r, err := newRun(cfg)
	if err != nil {
		return Report{}, err
	}
	if err := r.restore(ctx); err != nil {
		return Report{}, err
	}
	if r.state.Done {
		return r.state.Report, nil
	}
	err = r.compareAll(ctx)
	if err == nil {
		r.state.Done = true
	}
	return r.state.Report, errors.Join(err, r.save())
}

func newRun(cfg Config) (*run, error) {
	r := &run{Config: cfg, limiter: rate.NewLimiter(rate.Inf, 1), seen: map[string]bool{}}
	var err error
	if r.query, err = eventstore.ParseQuery(cfg.Query, time.Now().UTC()); err != nil {
		return nil, fmt.Errorf("the query: %w", err)
	}
	r.Query = r.query.String()
	if len(cfg.DSL) > 0 {
		r.query = kql.And{r.query, kql.Raw{JSON: string(cfg.DSL)}}
	}
	switch {
	case !(cfg.Sample >= 0 && cfg.Sample <= 1):
		return nil, fmt.Errorf("sample %g: expected a part from 0 to 1", cfg.Sample)
	case !(cfg.Rate >= 0) || math.IsInf(cfg.Rate, 0) || cfg.Limit < 0 || cfg.Concurrency < 0:
		return nil, errors.New("expected a rate, a limit and a concurrency of 0 or more")
	}
	if r.Concurrency == 0 {
		r.Concurrency = defaultConcurrency
	}
	if r.Causation == "" {
		r.Causation = defaultCausation
	}
	if cfg.Rate > 0 {
		r.limiter.SetLimit(rate.Limit(cfg.Rate))
	}
	for _, text := range cfg.Ignore {
		path, err := jsondiff.ParsePath(text)
		if err != nil {
			return nil, err
		}
		r.ignored = append(r.ignored, path)
	}
	return r, nil
}

// compareAll reads the selected messages and compares them, a chunk at a time.
func (r *run) compareAll(ctx context.Context) error {
	selection := eventstore.Selection{Query: r.query, Order: eventstore.BySequence, UpTo: r.state.UpTo, After: r.state.Cursor, WithoutBody: true}
	chunk := make([]schemas.Event, 0, chunkSize)
	cursor := r.state.Cursor
	flush := func() error {
		err := r.compareChunk(ctx, chunk)
		if err == nil {
			chunk, r.state.Cursor = chunk[:0], cursor
			err = r.save()
		}
		if r.Progress != nil {
			r.Progress(r.state.Report)
		}
		return err
	}
	for e, err := range r.Store.Events(ctx, selection) {
		if storeread.EndsRead(err) {
			return fmt.Errorf("reading the matching events: %w", err)
		}
		if r.Limit > 0 && r.state.Report.Messages+len(chunk) >= r.Limit {
			break
		}
		if err != nil {
			r.state.Report.LeftOut[Unreadable]++
			continue
		}
		if r.selects(e) {
			chunk = append(chunk, e)
		}
		cursor = eventstore.Cursor{Sequence: e.Sequence, EventID: e.EventID}
		if len(chunk) < chunkSize {
			continue
		}
		if err := flush(); err != nil {
			return err
		}
	}
	return flush()
}

// selects reports whether an event is the first one of a message of the sample.
func (r *run) selects(e schemas.Event) bool {
	if e.Fingerprint == "" || e.RecordedAction().OfNoMessage() || r.seen[e.Fingerprint] {
		return false
	}
	r.seen[e.Fingerprint] = true
	return r.Sample == 0 || inSample(e.Fingerprint, r.Sample)
}
