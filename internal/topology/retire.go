package topology

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Retirement moves the messages of a former topology.prefix to the present one, and removes
// the exchanges and queues of the former. Messages that wait go on waiting, for the rest of
// their delays. No process may use the former prefix. Everything is published, confirmed and
// then acknowledged, so that it can be repeated at any point.
type Retirement struct {
	Migration
	Former     schemas.Topology
	Reconciler Reconciler // of the present topology, on Conn
	Publisher  *rabbit.Publisher
	StateKeys  schemas.StateKeys
	User       string // of the events
}

// Check fails if the prefix is the present one, or if one of its queues has a consumer.
func (r Retirement) Check(ctx context.Context) error {
	if r.Former.Prefix == "" || r.Topology.Owns(r.Former.Tap()) {
		return fmt.Errorf("retiring prefix %q: it is the one of the configuration", r.Former.Prefix)
	}
	queues, err := r.queues(ctx)
	if err != nil {
		return err
	}
	if len(queues) == 0 {
		return fmt.Errorf("retiring prefix %q: no queue of virtual host %q begins with it", r.Former.Prefix, r.VHost)
	}
	for _, q := range queues {
		used := fmt.Errorf("retiring prefix %q: queue %s has a consumer: stop the processes of Watership that use the prefix", r.Former.Prefix, q.Name)
		if _, err := awaitUnused(ctx, r.Conn, q.Name, used); err != nil {
			return err
		}
	}
	return nil
}

// queues returns the queues of the former prefix, by their names.
func (r Retirement) queues(ctx context.Context) ([]rabbit.Queue, error) {
	all, err := r.Management.Queues(ctx, r.VHost)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(q rabbit.Queue) bool { return !r.Former.Owns(q.Name) || q.Exclusive })
	slices.SortFunc(all, func(a, b rabbit.Queue) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// QueueType returns the type of the former queues.
func (r Retirement) QueueType(ctx context.Context) (QueueType, error) {
	q, err := r.Management.Queue(ctx, r.VHost, r.Former.Retry())
	return QueueType(q.Type), err
}

// Indexed returns the former queues that the indexer empties, each with the limit and the type that its
// name says.
func (r Retirement) Indexed(ctx context.Context) (indexes []FormerIndex, err error) {
	queues, err := r.queues(ctx)
	for _, q := range queues {
		of, isIndex := r.Former.FormerIndex(q.Name)
		if isIndex || slices.Contains(r.Former.Indexed(), q.Name) {
			indexes = append(indexes, FormerIndex{Topology: of, Name: q.Name})
		}
	}
	return indexes, err
}

// Detach ends the copies to the former tap, and takes over the pauses of routes.
func (r Retirement) Detach(ctx context.Context) error {
	bindings, err := r.Management.BindingsTo(ctx, r.VHost, r.Former.Tap())
	if err != nil && !errors.Is(err, rabbit.ErrNotFound) {
		return err
	}
	bindings = slices.DeleteFunc(bindings, func(b rabbit.Binding) bool { return b.Source == r.Former.Tap() })
	if err := r.unbindTap(ctx, r.Former.Tap(), bindings); err != nil {
		return err
	}
	pauses, err := r.Management.Bindings(ctx, r.VHost, r.Former.Pauses())
	if err != nil && !errors.Is(err, rabbit.ErrNotFound) {
		return err
	}
	for _, b := range pauses {
		if b.DestinationType != "queue" {
			continue
		}
		key := b.RoutingKey
		if rest, is := strings.CutPrefix(key, r.Former.Paused()); is && (rest == "" || rest[0] == '.') { // of all routes, or of a held receiver
			key = r.Topology.Paused() + rest
		}
		if err := r.Reconciler.declarer(ctx).bind(binding{r.Topology.Paused(), r.Topology.Pauses(), key}); err != nil {
			return err
		}
	}
	return nil
}

// Move moves the messages that wait, that are due or poison, that are too large for the store,
// and the places of messages. It returns the number of each.
func (r Retirement) Move(ctx context.Context) (counts map[string]int, err error) {
	queues, err := r.queues(ctx)
	counts = map[string]int{}
	for _, q := range queues {
		if err != nil {
			break
		}
		var to func(schemas.Envelope) (moved, error)
		switch places := r.Former.Places(""); {
		case wire.DelaysOf(r.Former).Has(q.Name):
			to = r.waitOn(ctx, q.Name)
		case q.Name == r.Former.Due():
			to = r.waitOn(ctx, wire.DelaysOf(r.Former).Queue(0))
		case q.Name == r.Former.Poison():
			to = r.toQueue(r.Topology.Poison())
		case q.Name == r.Former.Unstorable():
			to = r.toQueue(r.Topology.Unstorable())
		case strings.HasPrefix(q.Name, places):
			key := r.Topology.Places(strings.TrimPrefix(q.Name, places))
			there, existsErr := r.Reconciler.declarer(ctx).queueExists(key)
			if err = existsErr; !there {
				continue // no route is ordered so any more
			}
			to = r.toQueue(key)
		default:
			continue
		}
		if err == nil {
			var n int
			n, err = r.move(ctx, q.Name, to)
			counts[q.Name] += n
		}
	}
	maps.DeleteFunc(counts, func(_ string, n int) bool { return n == 0 })
	return counts, err
}

// moved is a message on its way to the present topology.
type moved struct {
	event   *rabbit.Message // that is published before it; nil: none
	message rabbit.Message
}

func (r Retirement) toQueue(name string) func(schemas.Envelope) (moved, error) {
	return func(e schemas.Envelope) (moved, error) {
		return moved{message: rabbit.Message{Exchange: r.Topology.Direct(), RoutingKey: name, Publishing: e.Publishing()}}, nil
	}
}

// rejected is the reason of the death of a message that an operator took out of its delay queue.
const rejected = "rejected"

// waitOn returns a function for the messages of a delay queue: each waits for the rest of its
// delay in a standard delay queue, and is due or waits on from there. The event by which
// operators find it says so. A message without a readable state waits as long again. A due message
// that an operator took out of its delay queue is marked as such, since it loses the death that says so.
func (r Retirement) waitOn(ctx context.Context, queue string) func(schemas.Envelope) (moved, error) {
	verifier := wire.Verifier{Topology: r.Former, Keys: r.StateKeys}
	declared := map[time.Duration]bool{}
	return func(e schemas.Envelope) (moved, error) {
		milliseconds, _ := strconv.ParseInt(queue[strings.LastIndexByte(queue, '.')+1:], 10, 64)
		rest := time.Duration(milliseconds) * time.Millisecond
		var event *rabbit.Message
		taken := false
		_, death, _ := wire.DeadLetter(e, nil)
		verified, found, err := verifier.VerifyWaiting(e)
		switch readable := err == nil && found; {
		case readable && !verified.Mismatch && death.Reason == rejected:
			rest, taken = 0, true
		case readable:
			state := verified.State
			due := state.NotBefore
			if due.IsZero() {
				due = state.Time.Add(state.Delay)
			}
			if rest = time.Until(due); rest > 0 {
				event = r.rescheduled(verified.Envelope, state, rest)
			}
		}
		step := retry.Step(rest)
		if !declared[step] {
			if err := r.Reconciler.DeclareDelay(ctx, step); err != nil {
				return moved{}, err
			}
			declared[step] = true
		}
		m := rabbit.Message{Exchange: r.Topology.Direct(), RoutingKey: wire.DelaysOf(r.Topology).Queue(step), Publishing: e.Publishing()}
		if taken {
			verified.State.Undecided = true
			present := wire.Verifier{Topology: r.Topology, Keys: r.StateKeys}
			m.Publishing = present.Sign(m.Exchange, m.RoutingKey, wire.DefaultFrameMax.Wrap(verified.Envelope, verified.State))
		}
		return moved{event, m}, nil
	}
}

func (r Retirement) rescheduled(e schemas.Envelope, state schemas.State, rest time.Duration) *rabbit.Message {
	state.EventID = wire.DerivedID("retired", fmt.Sprintf("%s:%s:%d", r.Former.Prefix, state.Message, state.Attempt))
	state.Time, state.Delay = time.Now(), rest
	state.Audit.User, state.Audit.Reason = r.User, "topology.prefix "+r.Former.Prefix+" is retired"
	state.Route, state.Park, state.Progress, state.Untapped = false, false, "", false
	m := rabbit.Message{Exchange: r.Topology.Events(), RoutingKey: string(schemas.Rescheduled)}
	verifier := wire.Verifier{Topology: r.Topology, Keys: r.StateKeys}
	omitted := wire.OmittedBody{Size: len(e.Body), In: schemas.BodyInPublished}
	m.Publishing = verifier.Sign(m.Exchange, m.RoutingKey, wire.DefaultFrameMax.WrapWithoutBody(e, state, omitted))
	return &m
}

const (
	moveBatch   = 500
	moveSilence = 200 * time.Millisecond // after which the queue may be empty
)

var errMoved = errors.New("the queue is empty")

// move publishes the messages of a queue with the keys of to, each after its event, and
// returns their number.
func (r Retirement) move(ctx context.Context, queue string, to func(schemas.Envelope) (moved, error)) (n int, err error) {
	state, found, err := r.Conn.CertainQueueState(ctx, queue)
	if err != nil || !found || state.Messages == 0 {
		return 0, err
	}
	err = r.Conn.Consume(ctx, rabbit.ConsumeConfig{Queue: queue, Prefetch: moveBatch}, func(ctx context.Context, s *rabbit.Session) error {
		for {
			batch := receiveBatch(ctx, s)
			if len(batch) == 0 {
				if state, _, err := r.Conn.CertainQueueState(ctx, queue); err != nil || state.Messages == 0 {
					return errors.Join(err, errMoved)
				}
				continue
			}
			if err := r.publish(ctx, batch, to); err != nil {
				return err
			}
			if err := s.Ack(batch[len(batch)-1].DeliveryTag, true); err != nil {
				return err
			}
			n += len(batch)
		}
	})
	if err != nil && !errors.Is(err, errMoved) {
		return n, fmt.Errorf("moving the messages of queue %s: %w", queue, err)
	}
	return n, nil
}

// receiveBatch returns messages until there are enough, or none comes.
func receiveBatch(ctx context.Context, s *rabbit.Session) (batch []amqp.Delivery) {
	for len(batch) < moveBatch {
		select {
		case d, ok := <-s.Deliveries:
			if !ok {
				return batch
			}
			batch = append(batch, d)
		case <-time.After(moveSilence):
			return batch
		case <-ctx.Done():
			return nil
		}
	}
	return batch
}

// publish publishes the events of messages, then the messages, and waits for the confirms.
func (r Retirement) publish(ctx context.Context, batch []amqp.Delivery, to func(schemas.Envelope) (moved, error)) error {
	var events, messages []rabbit.Message
	for _, d := range batch {
		m, err := to(schemas.FromDelivery(d))
		if err != nil {
			return err
		}
		if m.event != nil {
			events = append(events, *m.event)
		}
		maps.DeleteFunc(m.message.Publishing.Headers, func(name string, _ any) bool { return header.SetByBroker(name) })
		messages = append(messages, m.message)
	}
	for _, group := range [][]rabbit.Message{events, messages} {
		var sent []*rabbit.Pending
		for _, m := range group {
			if err := r.Reconciler.EnsureReturns(ctx, m.Exchange, m.RoutingKey); err != nil {
				return err
			}
			pending, err := r.Publisher.Send(ctx, m)
			if err != nil {
				return err
			}
			sent = append(sent, pending)
		}
		for _, pending := range sent {
			if err := pending.Wait(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Left returns the number of messages in each former queue that has some, by the queues
// themselves and by the management API, whose numbers are some seconds old and include
// messages on their way from delay queues. Places of routes that are ordered no more do not count.
func (r Retirement) Left(ctx context.Context) (left map[string]int64, err error) {
	queues, err := r.queues(ctx)
	if err != nil {
		return nil, err
	}
	left, err = r.Management.DeadLettering(ctx, r.VHost)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(left, func(queue string, _ int64) bool { return !r.Former.Owns(queue) })
	for _, q := range queues {
		if strings.HasPrefix(q.Name, r.Former.Places("")) || q.Name == r.Former.Paused() {
			continue
		}
		state, _, err := r.Conn.CertainQueueState(ctx, q.Name)
		if err != nil {
			return nil, err
		}
		if n := max(q.Messages, int64(state.Messages), left[q.Name]); n > 0 {
			left[q.Name] = n
		}
	}
	return left, nil
}

// Close deletes the exchanges by which others publish to the former topology. The one of
// dead letters stays while queues have it: they would lose their dead letters. Close returns these
// queues.
func (r Retirement) Close(ctx context.Context) (deadLettered []string, err error) {
	all, err := r.Management.Queues(ctx, r.VHost)
	if err != nil {
		return nil, err
	}
	for _, q := range all {
		if name, _ := q.DeadLetterExchange(); name == r.Former.Retry() && !r.Former.Owns(q.Name) {
			deadLettered = append(deadLettered, q.Name)
		}
	}
	slices.Sort(deadLettered)
	exchanges := []string{r.Former.Tap(), r.Former.Report()}
	if len(deadLettered) == 0 {
		exchanges = append(exchanges, r.Former.Retry())
	}
	return deadLettered, r.deleteExchanges(ctx, exchanges)
}

// Remove deletes the former queues, which are empty, and exchanges, except exchanges of dead
// letters where others need them.
func (r Retirement) Remove(ctx context.Context, keepDeadLetters bool) error {
	queues, err := r.queues(ctx)
	if err != nil {
		return err
	}
	for _, q := range queues {
		if keepDeadLetters && q.Name == r.Former.Retry() {
			continue
		}
		if err := deleteEmpty(ctx, r.Conn, q.Name); err != nil {
			return err
		}
	}
	if err := r.deleteDivisions(ctx, r.Former, ""); err != nil {
		return err
	}
	exchanges := slices.DeleteFunc(r.Former.Exchanges(), func(name string) bool { return keepDeadLetters && name == r.Former.Retry() })
	return r.deleteExchanges(ctx, exchanges)
}

func (m Migration) deleteExchanges(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := m.Conn.Do(ctx, func(ch *amqp.Channel) error { return ch.ExchangeDelete(name, false, false) }); err != nil {
			return fmt.Errorf("deleting exchange %s: %w", name, err)
		}
	}
	return nil
}
