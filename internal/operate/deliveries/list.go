// Package deliveries finds from the record how the receivers of routes fare: the keys by which routes divide their
// handlers, such as the receivers of webhooks.
package deliveries

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation/eventjson"
	"github.com/watershipmq/watership/schemas"
)

// Store reads events.
type Store interface {
	history.EventStore
	TopValues(ctx context.Context, sel eventstore.Selection, field string, n int) (eventstore.Aggregation, error)
	Percentiles(ctx context.Context, sel eventstore.Selection, by string, n int, fields ...string) (eventstore.PercentilesBy, error)
	Present(ctx context.Context, sel eventstore.Selection, of eventstore.FieldIn) (map[string]bool, error)
	FirstTime(ctx context.Context, sel eventstore.Selection) (time.Time, error)
}

// ReceiverState is the state of a receiver of a route. Requests, Succeeded and P95 are of a period, the other members of the whole
// record, which a list has of receivers with a failed request in the period, and of those that are held.
type ReceiverState struct {
	Queue     string  `json:"queue" doc:"Queue of its route"`
	Name      string  `json:"receiver" doc:"Key of its messages (watership.receiver)"`
	Requests  int64   `json:"requests" doc:"Attempts in the period"`
	Succeeded int64   `json:"succeeded" doc:"Those that succeeded"`
	P95       float64 `json:"p95_seconds" doc:"95th percentile of the time of an attempt; 0: no attempt"`

	BrokenSince *time.Time `json:"broken_since,omitempty" doc:"When the first attempt failed since the latest that succeeded; none: the latest succeeded"`
	LastSuccess *time.Time `json:"last_success,omitempty"`
	LastAnswer  string     `json:"last_answer,omitempty" doc:"Answer to the latest attempt: its error, or what the route keeps of a success"`
	LastAt      *time.Time `json:"last_at,omitempty" doc:"When the latest attempt ended"`
	Held        *Hold      `json:"held,omitempty" doc:"An operator holds it"`
	Waiting     int        `json:"waiting" doc:"Messages that wait for their next attempt, and failed in the last 30 days"`
	Missed      int        `json:"missed" doc:"Messages that were given up, and not handled, replayed or discarded since"`
}

// Field is the field with the name of a receiver.
const Field = "watership.receiver"

// Finder finds receivers.
type Finder struct {
	Store    Store
	Failures history.Failures

	// Restrict limits a query to the events that the caller may see; nil: no limits.
	Restrict func(query kql.Node) (kql.Node, error)
}

// List returns the receivers in events that match a query, and those that operators hold by the events of another one:
// those with most failed requests first, then those that are held, then those with most requests.
func (f Finder) List(ctx context.Context, query, holding kql.Node, limit int) ([]ReceiverState, error) {
	query = kql.And{query, attempts(), kql.Exists{Field: kql.Pattern{Field}}}
	queues, err := f.Store.TopValues(ctx, eventstore.Selection{Query: query}, "watership.queue", limit)
	if err != nil {
		return nil, err
	}
	var all []ReceiverState
	for _, queue := range queues.Values {
		found, err := f.ofQueue(ctx, kql.And{kql.FieldIs("watership.queue", queue.Text), query}, limit)
		if err != nil {
			return nil, err
		}
		for i := range found {
			found[i].Queue = queue.Text
		}
		all = append(all, found...)
	}
	if all, err = f.addHeld(ctx, all, query, holding, limit); err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b ReceiverState) int {
		return cmp.Or(
			cmp.Compare(b.Requests-b.Succeeded, a.Requests-a.Succeeded), heldFirst(a, b), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Name, b.Name))
	})
	all = all[:min(len(all), limit)]
	for i := range all {
		if r := &all[i]; r.Requests > r.Succeeded || r.Held != nil {
			if err := f.Describe(ctx, r); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func heldFirst(a, b ReceiverState) int {
	switch {
	case (a.Held == nil) == (b.Held == nil):
		return 0
	case a.Held != nil:
		return -1
	}
	return 1
}

// addHeld sets which of some receivers are held, and adds others that are held by the events of a query.
func (f Finder) addHeld(ctx context.Context, all []ReceiverState, query, holding kql.Node, limit int) ([]ReceiverState, error) {
	holds, err := f.held(ctx, kql.All{})
	if err != nil || len(holds) == 0 {
		return all, err
	}
	others, err := f.held(ctx, holding)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].holdAs(holds)
		delete(others, Key{all[i].Queue, all[i].Name})
	}
	for key := range others {
		if hold, is := holds[key]; is && limit > 0 {
			limit--
			r, err := f.one(ctx, key, query)
			if err != nil {
				return nil, err
			}
			r.Held = &hold
			all = append(all, r)
		}
	}
	return all, nil
}

// one returns a receiver with its requests in the events of a query.
func (f Finder) one(ctx context.Context, key Key, query kql.Node) (ReceiverState, error) {
	r := ReceiverState{Name: key.Name}
	found, err := f.ofQueue(ctx, kql.And{Of(key.Queue, key.Name), query}, 1)
	if len(found) > 0 {
		r = found[0]
	}
	r.Queue = key.Queue
	return r, err
}

// holdAs sets whether an operator holds the receiver.
func (r *ReceiverState) holdAs(holds map[Key]Hold) {
	if hold, is := holds[Key{r.Queue, r.Name}]; is {
		r.Held = &hold
	}
}

// ofQueue returns the receivers of a queue with most failed requests, and then others with most requests.
func (f Finder) ofQueue(ctx context.Context, query kql.Node, limit int) ([]ReceiverState, error) {
	failing, err := f.Store.TopValues(ctx, eventstore.Selection{Query: kql.And{query, failed()}}, Field, limit)
	if err != nil {
		return nil, err
	}
	failures := map[string]int64{}
	either := kql.Or{}
	for _, value := range failing.Values {
		failures[value.Text] = value.Count
		either = append(either, kql.FieldIs(Field, value.Text))
	}
	var all []ReceiverState
	add := func(query kql.Node, n int) error {
		if n == 0 {
			return nil
		}
		found, err := f.Store.Percentiles(ctx, eventstore.Selection{Query: query}, Field, n, history.HandlerTime)
		for _, v := range found.Values {
			all = append(all, ReceiverState{Name: v.Text, Requests: v.Count, Succeeded: v.Count - failures[v.Text], P95: time.Duration(v.Fields[0].P95).Seconds()})
		}
		return err
	}
	if err := add(kql.And{query, either}, len(either)); err != nil {
		return nil, err
	}
	if len(either) == 0 {
		return all, add(query, limit)
	}
	return all, add(kql.And{query, kql.Not{Node: either}}, limit-len(either))
}

// Describe adds the members of a receiver that come from all of the record.
func (f Finder) Describe(ctx context.Context, r *ReceiverState) error {
	of, err := f.of(r)
	if err == nil {
		err = f.describeLatest(ctx, r, of)
	}
	if err != nil {
		return err
	}
	if r.Waiting, err = f.waiting(ctx, kql.And{of, after(time.Now().Add(-waitingPeriod))}); err != nil {
		return err
	}
	for _, err := range f.Failures.Open(ctx, of) {
		if err != nil {
			return err
		}
		r.Missed++
	}
	return nil
}

// DescribeLatest adds the latest attempts of a receiver: whether it is broken, and its answer.
func (f Finder) DescribeLatest(ctx context.Context, r *ReceiverState) error {
	of, err := f.of(r)
	if err != nil {
		return err
	}
	return f.describeLatest(ctx, r, of)
}

// of returns a query for the events of a receiver that the caller may see.
func (f Finder) of(r *ReceiverState) (kql.Node, error) {
	of := Of(r.Queue, r.Name)
	if f.Restrict == nil {
		return of, nil
	}
	return f.Restrict(of)
}

func (f Finder) describeLatest(ctx context.Context, r *ReceiverState, of kql.Node) error {
	success, found, err := f.newest(ctx, kql.And{of, handled()})
	if err != nil {
		return err
	}
	since := of
	if found {
		r.LastSuccess, r.LastAt, r.LastAnswer = &success.Time, &success.Time, eventjson.Answer(ctx, success.Answer)
		since = kql.And{of, after(success.Time)}
	}
	failure, found, err := f.newest(ctx, kql.And{since, failed(), attempts()})
	if err != nil {
		return err
	}
	if found {
		first, err := f.Store.FirstTime(ctx, eventstore.Selection{Query: kql.And{since, failed(), attempts()}})
		if err != nil {
			return err
		}
		r.BrokenSince, r.LastAt, r.LastAnswer = &first, &failure.Time, failure.Failure.Message
	}
	return nil
}

func (f Finder) newest(ctx context.Context, query kql.Node) (schemas.Event, bool, error) {
	for e, err := range f.Store.Events(ctx, eventstore.Selection{Query: query, Limit: 1, WithoutBody: true}) {
		return e, err == nil, err
	}
	return schemas.Event{}, false, ctx.Err()
}

// waitingPeriod bounds the messages that are counted as waiting, by their latest failed attempt.
const waitingPeriod = 30 * 24 * time.Hour

// chunkSize is the number of messages whose later events one request reads.
const chunkSize = 1000

// waiting counts the messages of a receiver that wait. Waits for a key after the first one have no events, so that
// the end of a delay says nothing.
func (f Finder) waiting(ctx context.Context, of kql.Node) (n int, err error) {
	scheduled := eventstore.Selection{Query: kql.And{of, kql.FieldIs("event.action", string(schemas.RetryScheduled))}}
	seen, chunk := map[string]bool{}, []string(nil)
	count := func() error {
		waits := map[string]bool{}
		later := eventstore.Selection{Query: withActions(schemas.RetryScheduled, schemas.Rescheduled, schemas.Handled, schemas.Poisoned, schemas.Discarded)}
		for e, err := range f.Store.Summaries(ctx, later, eventstore.FieldIn{Field: "watership.message", Values: chunk}) {
			if err != nil {
				return err
			}
			waits[e.Message] = e.Action == schemas.RetryScheduled || e.Action == schemas.Rescheduled // the latest comes last
		}
		for _, is := range waits {
			if is {
				n++
			}
		}
		chunk = chunk[:0]
		return nil
	}
	for e, err := range f.Store.Summaries(ctx, scheduled) {
		if err != nil {
			return 0, err
		}
		if e.Message == "" || seen[e.Message] {
			continue
		}
		seen[e.Message] = true
		if chunk = append(chunk, e.Message); len(chunk) == chunkSize {
			if err := count(); err != nil {
				return 0, err
			}
		}
	}
	if len(chunk) == 0 {
		return n, nil
	}
	return n, count()
}

// Key names a receiver of a route.
type Key struct {
	Queue string `json:"queue"`
	Name  string `json:"receiver"`
}

// Broken returns receivers that have failed attempts in the events of a query, and no successful one in the events of
// another.
func (f Finder) Broken(ctx context.Context, query, success kql.Node, limit int) ([]Key, error) {
	query = kql.And{query, failed(), attempts(), kql.Exists{Field: kql.Pattern{Field}}}
	queues, err := f.Store.TopValues(ctx, eventstore.Selection{Query: query}, "watership.queue", limit)
	if err != nil {
		return nil, err
	}
	var keys []Key
	for _, queue := range queues.Values {
		failing, err := f.Store.TopValues(ctx, eventstore.Selection{Query: kql.And{kql.FieldIs("watership.queue", queue.Text), query}}, Field, limit)
		if err != nil {
			return nil, err
		}
		for _, value := range failing.Values {
			keys = append(keys, Key{queue.Text, value.Text})
		}
	}
	healthy, err := f.Succeeded(ctx, success, keys)
	return slices.DeleteFunc(keys, func(k Key) bool { return healthy[k] }), err
}

// Succeeded returns the ones of some receivers that have a successful attempt in the events of a query.
func (f Finder) Succeeded(ctx context.Context, query kql.Node, keys []Key) (map[Key]bool, error) {
	return f.present(ctx, kql.And{handled(), query}, keys)
}

// Attempted returns the ones of some receivers that have an attempt in the events of a query.
func (f Finder) Attempted(ctx context.Context, query kql.Node, keys []Key) (map[Key]bool, error) {
	return f.present(ctx, kql.And{attempts(), query}, keys)
}

// present returns the ones of some receivers that have an event of a query.
func (f Finder) present(ctx context.Context, query kql.Node, keys []Key) (map[Key]bool, error) {
	names := map[string][]string{}
	for _, k := range keys {
		names[k.Queue] = append(names[k.Queue], k.Name)
	}
	has := map[Key]bool{}
	for queue, of := range names {
		sel := eventstore.Selection{Query: kql.And{kql.FieldIs("watership.queue", queue), query}}
		found, err := f.Store.Present(ctx, sel, eventstore.FieldIn{Field: Field, Values: of})
		if err != nil {
			return nil, err
		}
		for name, is := range found {
			has[Key{queue, name}] = is
		}
	}
	return has, nil
}

// Of returns a query for the events of a receiver.
func Of(queue, name string) kql.Node {
	return kql.And{kql.FieldIs("watership.queue", queue), kql.FieldIs(Field, name)}
}

// attempts returns a query for the events of attempts: others wait for their key, and were not tried.
func attempts() kql.Node {
	return kql.And{history.Attempts(), kql.Exists{Field: kql.Pattern{history.HandlerTime}}}
}

func handled() kql.Node { return withActions(schemas.Handled) }

func failed() kql.Node { return withActions(schemas.RetryScheduled, schemas.Poisoned) }

func withActions(actions ...schemas.Action) kql.Node {
	var either kql.Or
	for _, action := range actions {
		either = append(either, kql.FieldIs("event.action", string(action)))
	}
	return either
}

func after(t time.Time) kql.Node {
	return kql.Range{
		Field: kql.Pattern{"@timestamp"}, Op: kql.Greater, Value: kql.Value{Pattern: kql.Pattern{t.UTC().Format(time.RFC3339Nano)}, Quoted: true},
	}
}
