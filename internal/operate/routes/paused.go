package routes

import (
	"context"
	"errors"
	"iter"
	"maps"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/internal/topology/pause"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/schemas"
)

// Events reads events.
type Events interface {
	Events(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error]
}

// maxPausedAge bounds the age of a `paused` event: a route that is still paused repeats it.
// A route whose process has ended does not.
const maxPausedAge = pipeline.PausedEvery + 5*time.Minute

// Paused returns the newest event of each route whose circuit breaker is open, by queue.
func (cfg Config) Paused(ctx context.Context) (map[string]schemas.Event, error) {
	query, err := within(maxPausedAge, kql.Or{kql.FieldIs("event.action", string(schemas.Paused)), kql.FieldIs("event.action", string(schemas.Resumed))})
	if err != nil {
		return nil, err
	}
	newest := map[string]schemas.Event{}
	for event, err := range storeread.Readable(cfg.Events.Events(ctx, eventstore.Selection{Query: query, WithoutBody: true})) {
		if err != nil {
			return nil, err
		}
		if _, known := newest[event.Queue]; !known && cfg.has(event) && event.Failure.Type != pause.ByOperator {
			newest[event.Queue] = event
		}
	}
	maps.DeleteFunc(newest, func(_ string, e schemas.Event) bool { return e.RecordedAction() != schemas.Paused })
	return newest, nil
}

// pausedByHand returns the queues whose routes an operator has paused, each with an empty
// event. RabbitMQ knows them, also if the store does not.
func (cfg Config) pausedByHand(ctx context.Context, queues []string) (map[string]schemas.Event, error) {
	held := map[string]schemas.Event{}
	for _, queue := range queues {
		paused, err := pause.Paused(ctx, cfg.Publisher, cfg.Topology, queue)
		var refused *rabbit.RefusedError
		if errors.As(err, &refused) && refused.Code == amqp091.NotFound { // setup has not declared the exchange
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if paused {
			held[queue] = schemas.Event{}
		}
	}
	return held, nil
}

// addReasons replaces the events of routes that operators have paused by the stored ones.
func (cfg Config) addReasons(ctx context.Context, held map[string]schemas.Event) error {
	for queue := range held {
		query := kql.And{
			kql.FieldIs("event.action", string(schemas.Paused)), kql.FieldIs("error.type", pause.ByOperator), ofQueue(queue),
			kql.Not{Node: kql.Exists{Field: kql.Pattern{"watership.receiver"}}}, // which is held, and not the route
		}
		for e, err := range storeread.Readable(cfg.Events.Events(ctx, eventstore.Selection{Query: query, WithoutBody: true})) {
			if err != nil {
				return err
			}
			if cfg.has(e) {
				held[queue] = e
				break
			}
		}
	}
	return nil
}

// ofQueue selects the events about the route of a queue, or about all routes.
func ofQueue(queue string) kql.Node {
	if queue == pause.All {
		return kql.Not{Node: kql.Exists{Field: kql.Pattern{"watership.queue"}}}
	}
	return kql.FieldIs("watership.queue", queue)
}

// within limits a query to events that are not older.
func within(age time.Duration, query kql.Node) (kql.Node, error) {
	fields, err := eventstore.Fields()
	if err != nil {
		return nil, err
	}
	since := time.Now().Add(-age).UTC().Format(time.RFC3339)
	recent, err := kql.Resolve(kql.Range{
		Field: kql.Pattern{"@timestamp"}, Op: kql.GreaterOrEqual, Value: kql.Value{Pattern: kql.Pattern{since}, Quoted: true},
	}, fields)
	return kql.And{query, recent}, err
}

// has reports whether an event is of the system. A query would read all events of the
// system first, which takes SQLite a second for a million of them.
func (cfg Config) has(e schemas.Event) bool {
	return e.VHost == cfg.VHost && (cfg.Source == "" || e.Source == cfg.Source)
}
