package topology

import (
	"context"
	"errors"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
)

// indexSwitch replaces what gets the copies of the tap by one operation of the broker: each copy reaches either
// the former queues or the present ones, and those before it the former.
//
// Tap → gate → former queues leads every copy to the former queues, as the binding of the tap to them does;
// RabbitMQ gives a queue one copy of a publish, whichever ways lead to it. The gate's alternate
// exchange leads to the present queues, and gets what no binding of the gate matches. So the operation is
// to unbind the former queues from the gate. The bindings tell how far a switch that ended early has come.
type indexSwitch struct {
	Migration
	declarer declarer
	present  Config
}

// gate is the exchange that is put between the tap and the former queues.
func (s indexSwitch) gate() exchange {
	return exchange{name: s.present.Index() + ".gate", kind: amqp.ExchangeFanout, internal: true, own: amqp.Table{alternateExchange: s.entrance().name}}
}

// entrance is the alternate exchange of the gate, which leads to the present queues.
func (s indexSwitch) entrance() exchange {
	return exchange{name: s.present.Index() + ".entrance", kind: amqp.ExchangeFanout, internal: true}
}

// end is the destination of a binding.
type end struct{ name, kind string }

// presentEnd returns the exchange or the queue that is bound to the tap in the end.
func (s indexSwitch) presentEnd() end {
	if divides, _ := s.present.Partitions(); divides != "" {
		return end{divides, "exchange"}
	}
	return end{s.present.Index(), "queue"}
}

// Switch lets the present index queues get the copies of the tap in place of the former ones. It declares
// them. It does nothing if the tap has no former ones, as in a new installation. Without the management API of this
// broker it does nothing either, because Declare and Unbind then do so one after the other.
func (m Migration) Switch(ctx context.Context, present Config) error {
	if m.Management.CheckCluster(ctx, m.Conn) != nil {
		return nil
	}
	s := indexSwitch{m, declarer{ctx: ctx, conn: m.Conn, self: &SelfBindings{}}, present}
	ends, err := s.endsOf(ctx, s.present.Topology.Tap())
	gated := slices.Contains(ends, end{s.gate().name, "exchange"})
	former := slices.DeleteFunc(ends, func(e end) bool { return e == s.presentEnd() || e.name == s.gate().name })
	if err != nil || len(former) == 0 && !gated {
		return err
	}
	if err := s.declarePresent(); err != nil {
		return err
	}
	if !gated {
		if err := s.putGate(former); err != nil {
			return err
		}
	}
	if err := s.unbind(s.present.Topology.Tap(), former); err != nil {
		return err
	}
	behind, err := s.endsOf(ctx, s.gate().name)
	if err != nil {
		return err
	}
	if err := s.unbind(s.gate().name, behind); err != nil { // the operation
		return err
	}
	return s.finish()
}

// endsOf returns what of Watership is bound to an exchange, but for itself.
func (s indexSwitch) endsOf(ctx context.Context, exchange string) (ends []end, err error) {
	bindings, err := s.Management.Bindings(ctx, s.VHost, exchange)
	if errors.Is(err, rabbit.ErrNotFound) {
		return nil, nil
	}
	for _, b := range bindings {
		if b.Destination != exchange && s.present.Owns(b.Destination) {
			ends = append(ends, end{b.Destination, b.DestinationType})
		}
	}
	return ends, err
}

// declarePresent declares the present queues, and the entrance to them.
func (s indexSwitch) declarePresent() error {
	d, c := s.declarer, s.present
	for _, e := range c.exchanges() {
		if err := d.ownExchange(e, c); err != nil {
			return err
		}
	}
	if err := d.queues(c, c.copyQueues()...); err != nil {
		return err
	}
	if c.IndexPartitions > 1 {
		for _, b := range c.copyBindings() {
			if err := d.bind(b); err != nil {
				return err
			}
		}
	}
	if err := d.exchange(s.entrance(), nil); err != nil {
		return err
	}
	return s.bind(s.entrance().name, []end{s.presentEnd()})
}

// putGate puts the gate between the tap and the former ends, which both lead to. It is bound to
// the tap last: until then its alternate exchange gets nothing.
func (s indexSwitch) putGate(former []end) error {
	if err := s.declarer.exchange(s.gate(), s.gate().own); err != nil {
		return err
	}
	if err := s.bind(s.gate().name, former); err != nil {
		return err
	}
	return s.bind(s.present.Topology.Tap(), []end{{s.gate().name, "exchange"}})
}

// finish binds the present end to the tap, which the gate leads to as well, and takes out the gate.
func (s indexSwitch) finish() error {
	if err := s.bind(s.present.Topology.Tap(), []end{s.presentEnd()}); err != nil {
		return err
	}
	if err := s.unbind(s.present.Topology.Tap(), []end{{s.gate().name, "exchange"}}); err != nil {
		return err
	}
	return s.deleteExchanges(s.declarer.ctx, []string{s.gate().name, s.entrance().name})
}

func (s indexSwitch) bind(exchange string, ends []end) error {
	return s.each(ends, "bind", exchange, func(ch *amqp.Channel, e end) error {
		if e.kind == "exchange" {
			return ch.ExchangeBind(e.name, "", exchange, false, nil)
		}
		return ch.QueueBind(e.name, "", exchange, false, nil)
	})
}

func (s indexSwitch) unbind(exchange string, ends []end) error {
	return s.each(ends, "unbind", exchange, func(ch *amqp.Channel, e end) error {
		if e.kind == "exchange" {
			return ch.ExchangeUnbind(e.name, "", exchange, false, nil)
		}
		return ch.QueueUnbind(e.name, "", exchange, nil)
	})
}

func (s indexSwitch) each(ends []end, verb, exchange string, do func(*amqp.Channel, end) error) error {
	for _, e := range ends {
		if err := s.declarer.do(func(ch *amqp.Channel) error { return do(ch, e) }); err != nil {
			return fmt.Errorf("%s %s %s at exchange %s: %w", verb, e.kind, e.name, exchange, err)
		}
	}
	return nil
}
