package topology

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
)

// alternateExchange is the argument, and the key of policies, that names the exchange for the
// messages that no binding matches (https://www.rabbitmq.com/docs/ae).
const alternateExchange = "alternate-exchange"

// args returns the arguments of an exchange of Watership, which is its own alternate
// exchange. A message that the broker returns has no next copy yet, and a policy for all
// exchanges may name an alternate exchange that takes it, confirmed. An argument wins over
// policies, and the broker passes a message through an exchange once, so that it returns
// what no binding matches.
func (e exchange) args() amqp.Table {
	args := amqp.Table{alternateExchange: e.name}
	maps.Copy(args, e.own)
	return args
}

// SelfBindings remembers which exchanges of Watership lack the argument, since a former
// release declared them: it cannot be added, and messages that arrive while an exchange is
// deleted are lost. Each is bound to itself instead. An alternate exchange gets only what
// no binding matches, and the binding leads to no queue. A direct exchange has such a
// binding for each routing key.
type SelfBindings struct {
	mu    sync.Mutex      // guards the fields below
	lacks map[string]bool // by the name of the exchange; absent: it is not known
	bound map[selfBinding]bool
}

type selfBinding struct{ exchange, key string }

// of returns whether an exchange lacks the argument, and whether that is known.
func (s *SelfBindings) of(exchange string) (lacks, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lacks, known = s.lacks[exchange]
	return lacks, known
}

func (s *SelfBindings) set(exchange string, lacks bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lacks == nil {
		s.lacks, s.bound = map[string]bool{}, map[selfBinding]bool{}
	}
	s.lacks[exchange] = lacks
}

func (s *SelfBindings) isBound(b selfBinding) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bound[b]
}

func (s *SelfBindings) add(b selfBinding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bound[b] = true
}

// forget makes the next message with a routing key bind it again.
func (s *SelfBindings) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.bound)
}

// catchAll returns the binding that matches every message of an exchange, if its type has one.
func (e exchange) catchAll() (key string, args amqp.Table, found bool) {
	switch e.kind {
	case amqp.ExchangeTopic:
		return "#", nil, true
	case amqp.ExchangeHeaders:
		return "", amqp.Table{"x-match": "all"}, true
	}
	return "", nil, e.kind == amqp.ExchangeFanout
}

// bindToItself binds an exchange that lacks the argument, for messages with a routing key.
func (d declarer) bindToItself(e exchange, key string) error {
	if lacks, _ := d.self.of(e.name); !lacks {
		return nil
	}
	every, args, found := e.catchAll()
	if found {
		key = every
	}
	if d.self.isBound(selfBinding{e.name, key}) {
		return nil
	}
	err := d.do(func(ch *amqp.Channel) error { return ch.ExchangeBind(e.name, key, e.name, false, args) })
	if err != nil {
		return fmt.Errorf("bind exchange %q, which has no alternate exchange of its own, to itself: %w", e.name, err)
	}
	d.self.add(selfBinding{e.name, key})
	return nil
}

// EnsureReturns makes sure that the broker returns a message with a routing key if no queue
// gets it from an exchange of Watership, whichever alternate exchange a policy names. Call
// it before publishing. It does nothing for other exchanges, and for those that a login may
// not declare.
func (r Reconciler) EnsureReturns(ctx context.Context, exchange, key string) error {
	d := r.declarer(ctx)
	lacks, known := d.self.of(exchange)
	if known && !lacks || !r.config().Owns(exchange) {
		return nil
	}
	e, own := r.config().exchangeNamed(exchange)
	if !own {
		return nil
	}
	if !known {
		if there, err := d.exchangeExists(e); err != nil || !there {
			return err // publishing fails if it is missing
		}
		if err := d.ownExchange(e, r.config()); refusedWith(err, amqp.AccessRefused) {
			d.self.set(exchange, false)
		} else if err != nil {
			return err
		}
	}
	return ignoreNotFound(d.bindToItself(e, key))
}

// ReturningPublisher is a publisher whose messages to exchanges of Watership the broker
// returns if no queue gets them.
type ReturningPublisher struct {
	Publisher  Publisher
	Reconciler Reconciler
}

// Publish calls EnsureReturns, then publishes.
func (p ReturningPublisher) Publish(ctx context.Context, m rabbit.Message) error {
	if err := p.Reconciler.EnsureReturns(ctx, m.Exchange, m.RoutingKey); err != nil {
		return err
	}
	return p.Publisher.Publish(ctx, m)
}

func (c Config) exchangeNamed(name string) (exchange, bool) {
	for _, e := range c.exchanges() {
		if e.name == name {
			return e, true
		}
	}
	return exchange{}, false
}

// ownExchange declares one of Watership's exchanges, and notes whether it lacks the
// argument.
func (d declarer) ownExchange(e exchange, c Config) error {
	args, alternate := e.args(), true
	for {
		err := d.exchange(e, args)
		var differs *Error
		switch isDifferent := errors.As(err, &differs); {
		case err == nil:
			d.self.set(e.name, !alternate)
			return nil
		case refusedWith(err, amqp.AccessRefused) && alternate:
			args, alternate = e.own, false // the argument needs the permission to write to the exchange
		case !isDifferent:
			return err
		case differs.Argument == "internal" && e.internal && c.mayLackInternal(e.name):
			e.internal = false // RabbitMQ names one difference at a time
		case differs.Argument == alternateExchange:
			d.self.set(e.name, alternate)
			return nil
		default:
			return err
		}
	}
}

// bindAllToThemselves binds each exchange that lacks the argument, for the messages that
// this process is known to publish. EnsureReturns does so for others. A login that may not
// bind an exchange may not publish to it either, or EnsureReturns fails.
func (d declarer) bindAllToThemselves(c Config) error {
	var errs []error
	for _, e := range c.exchanges() {
		if e.kind == ConsistentHash {
			continue // such a binding would take its share, and no client publishes to it
		}
		if _, _, all := e.catchAll(); all {
			errs = append(errs, d.bindToItself(e, ""))
			continue
		}
		for _, b := range append(c.bindings(), c.routeBindings()...) {
			if b.exchange == e.name {
				errs = append(errs, d.bindToItself(e, b.key))
			}
		}
	}
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return refusedWith(err, amqp.AccessRefused) })...)
}
