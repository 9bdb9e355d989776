package history

import (
	"cmp"
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// The greatest numbers of a ServiceMap.
const (
	maxMapExchanges  = 20 // those with most events
	maxMapPublishers = 20 // of an exchange
	maxMapQueues     = 200

	mapRequests = 4 // at once
)

// ServiceMap has the ways of messages in a selection of events: from publishers to exchanges, from there to queues,
// and from queues to the services that handle them, which may be publishers themselves.
type ServiceMap struct {
	Publishes []Publish
	Routed    []RoutedMessages
	Queues    []QueueAttempts

	Omitted int64 // events of further exchanges, publishers and queues
}

// Publish counts the messages that a publisher published to an exchange.
type Publish struct {
	Publisher string // app_id; "": messages without one
	Exchange  string // "": the default exchange
	Messages  int64
}

// RoutedMessages counts the messages of an exchange that a queue is done with.
type RoutedMessages struct {
	Exchange string
	Queue    string
	Handled  int64
	Poisoned int64
	Total    time.Duration // 95th percentile of the time from publish to handled; zero: not known
}

// QueueAttempts counts the attempts of a queue.
type QueueAttempts struct {
	Queue   string
	Service string // the app_id of what its handler publishes; "": not known
	Handled int64
	Failed  int64         // attempts, also of poison
	Handler time.Duration // 95th percentile of the time of the attempts; zero: not known
}

// MapStore reads the events of a ServiceMap.
type MapStore interface {
	EventStore
	TopValues(ctx context.Context, sel eventstore.Selection, field string, n int) (eventstore.Aggregation, error)
	Percentiles(ctx context.Context, sel eventstore.Selection, by string, n int, fields ...string) (eventstore.PercentilesBy, error)
}

// FindServiceMap returns the map of the events that match a query; nil: of all events. causation is the header in
// which handlers name the message that they handled.
func FindServiceMap(ctx context.Context, store MapStore, query kql.Node, causation string) (ServiceMap, error) {
	m := mapReader{store: store, query: cmp.Or[kql.Node](query, kql.All{})}
	var queues mapQueues
	var exchanges eventstore.Aggregation
	var services map[string]string
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(mapRequests)
	group.Go(func() (err error) { queues, err = m.queues(groupCtx); return err })
	group.Go(func() (err error) { services, err = m.services(groupCtx, causation); return err })
	group.Go(func() (err error) {
		exchanges, err = m.listExchanges(groupCtx)
		return err
	})
	if err := group.Wait(); err != nil {
		return ServiceMap{}, err
	}
	found := ServiceMap{Omitted: exchanges.Others + queues.omitted}
	names := exchanges.Values
	if exchanges.Without > 0 {
		names = append(names, eventstore.Bucket{Count: exchanges.Without}) // the default exchange
	}
	list, err := m.exchanges(ctx, names, queues)
	for _, e := range list {
		found.Publishes = append(found.Publishes, e.publishes...)
		found.Routed = append(found.Routed, e.routed...)
		found.Omitted += e.omitted
	}
	for _, name := range queues.names {
		q := queues.of[name]
		found.Queues = append(found.Queues, QueueAttempts{name, services[name], q.handled, q.attempts - q.handled, q.handler})
	}
	return found, err
}

const (
	exchangeField  = "messaging.destination.name"
	publisherField = "messaging.app_id"
	queueField     = "watership.queue"
)

type mapReader struct {
	store MapStore
	query kql.Node
}

func (m mapReader) selection(conditions ...kql.Node) eventstore.Selection {
	return eventstore.Selection{Query: kql.And(append(conditions, m.query))}
}

func (m mapReader) count(ctx context.Context, field string, n int, conditions ...kql.Node) (eventstore.Aggregation, error) {
	return m.store.TopValues(ctx, m.selection(conditions...), field, n)
}

// listExchanges returns the exchanges with their events. A store lists all the exchanges that it knows without reading
// events; only if they are many, those with most events of the selection are found.
func (m mapReader) listExchanges(ctx context.Context) (eventstore.Aggregation, error) {
	all, err := m.store.TopValues(ctx, eventstore.Selection{}, exchangeField, maxMapExchanges)
	if err != nil || all.Others == 0 {
		return all, err
	}
	return m.count(ctx, exchangeField, maxMapExchanges, kql.Or{Attempts(), ofAction(schemas.Published)})
}

// countByQueue counts events by queue.
func (m mapReader) countByQueue(ctx context.Context, conditions ...kql.Node) (map[string]int64, error) {
	counted, err := m.count(ctx, queueField, maxMapQueues, conditions...)
	counts := map[string]int64{}
	for _, v := range counted.Values {
		counts[v.Text] = v.Count
	}
	return counts, err
}

// FieldIsOrNone matches events whose field has a value, or no value if it is "": documents have no field for the name
// of the default exchange.
func FieldIsOrNone(field, value string) kql.Node {
	if value == "" {
		return kql.Not{Node: kql.Exists{Field: kql.Pattern{field}}}
	}
	return kql.FieldIs(field, value)
}

func ofAction(action schemas.Action) kql.Node { return kql.FieldIs("event.action", string(action)) }

// mapQueues has the counts and times of queues, for messages of all exchanges.
type mapQueues struct {
	names   []string // those with most attempts first
	of      map[string]mapQueue
	omitted int64 // attempts at other queues
}

type mapQueue struct {
	attempts, handled, poisoned int64
	handler, total              time.Duration
}

func (m mapReader) queues(ctx context.Context) (mapQueues, error) {
	attempts, err := m.store.Percentiles(ctx, m.selection(Attempts()), queueField, maxMapQueues, HandlerTime, TotalTime)
	if err != nil {
		return mapQueues{}, err
	}
	handled, err := m.countByQueue(ctx, ofAction(schemas.Handled))
	if err != nil {
		return mapQueues{}, err
	}
	poisoned, err := m.countByQueue(ctx, ofAction(schemas.Poisoned))
	queues := mapQueues{of: map[string]mapQueue{}, omitted: attempts.Others}
	for _, v := range attempts.Values {
		queues.names = append(queues.names, v.Text)
		queues.of[v.Text] = mapQueue{v.Count, handled[v.Text], poisoned[v.Text], time.Duration(v.Fields[0].P95), time.Duration(v.Fields[1].P95)}
	}
	return queues, err
}

// mapExchange has the ways to and from an exchange.
type mapExchange struct {
	publishes []Publish
	routed    []RoutedMessages
	omitted   int64
}

func (m mapReader) exchanges(ctx context.Context, exchanges []eventstore.Bucket, queues mapQueues) ([]mapExchange, error) {
	list := make([]mapExchange, len(exchanges))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(mapRequests)
	for i, exchange := range exchanges {
		group.Go(func() (err error) {
			list[i].publishes, list[i].omitted, err = m.publishes(groupCtx, exchange.Text)
			return err
		})
		group.Go(func() (err error) {
			list[i].routed, err = m.routed(groupCtx, exchange.Text, queues)
			return err
		})
	}
	return list, group.Wait()
}

func (m mapReader) publishes(ctx context.Context, exchange string) (list []Publish, omitted int64, err error) {
	publishers, err := m.count(ctx, publisherField, maxMapPublishers, ofAction(schemas.Published), FieldIsOrNone(exchangeField, exchange))
	for _, p := range publishers.Values {
		list = append(list, Publish{p.Text, exchange, p.Count})
	}
	if publishers.Without > 0 {
		list = append(list, Publish{"", exchange, publishers.Without})
	}
	return list, publishers.Others, err
}

// routed returns the ways from an exchange to queues. The numbers of a queue that gets messages of one exchange only
// are known already.
func (m mapReader) routed(ctx context.Context, exchange string, queues mapQueues) (list []RoutedMessages, err error) {
	from := FieldIsOrNone(exchangeField, exchange)
	done, err := m.count(ctx, queueField, maxMapQueues, kql.Or{ofAction(schemas.Handled), ofAction(schemas.Poisoned)}, from)
	if err != nil {
		return nil, err
	}
	for _, v := range done.Values {
		q := queues.of[v.Text]
		routed := RoutedMessages{exchange, v.Text, q.handled, q.poisoned, q.total}
		if v.Count != q.handled+q.poisoned {
			if routed, err = m.routedTo(ctx, exchange, v.Text); err != nil {
				return nil, err
			}
		}
		list = append(list, routed)
	}
	return list, nil
}

// routedTo reads the way from an exchange to a queue that gets messages of others, too.
func (m mapReader) routedTo(ctx context.Context, exchange, queue string) (RoutedMessages, error) {
	way := kql.And{FieldIsOrNone(exchangeField, exchange), kql.FieldIs(queueField, queue)}
	poisoned, err := m.countByQueue(ctx, ofAction(schemas.Poisoned), way)
	if err != nil {
		return RoutedMessages{}, err
	}
	handled, err := m.store.Percentiles(ctx, m.selection(ofAction(schemas.Handled), way), queueField, 1, TotalTime)
	if err != nil {
		return RoutedMessages{}, err
	}
	routed := RoutedMessages{Exchange: exchange, Queue: queue, Poisoned: poisoned[queue]}
	for _, v := range handled.Values {
		routed.Handled, routed.Total = v.Count, time.Duration(v.Fields[0].P95)
	}
	return routed, nil
}
