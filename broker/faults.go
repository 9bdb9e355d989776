package broker

import (
	"slices"
	"time"
)

// Fault makes the broker misbehave, for tests of programs that have to survive it.
type Fault struct {
	// Match says which publishes meet the fault. Nil: all. It is called by the
	// goroutines of connections, several at a time.
	Match func(Publish) bool

	// Times is how many publishes meet the fault before it ends by itself. Zero:
	// until the function that Inject returned is called.
	Times int

	// Do is the outcome of the publish.
	Do Outcome
}

// Publish is a message that a client publishes.
type Publish struct {
	VHost, User          string
	Exchange, RoutingKey string
	Mandatory            bool
	Body                 []byte // not to be changed
}

// Outcome says how a publish that meets a fault ends.
type Outcome struct{ do func(*channel) *exception }

// Nack refuses the message with basic.nack; in a transaction it makes the commit
// fail. Without confirms the message is lost and the client is told nothing.
func Nack() Outcome {
	return Outcome{func(ch *channel) *exception {
		ch.confirmOnly(false)
		return nil
	}}
}

// Unroutable finds no queue for the message: it is returned where it is mandatory,
// and confirmed.
func Unroutable() Outcome {
	return Outcome{func(ch *channel) *exception {
		ch.vhost.lock()
		defer ch.vhost.unlock()
		m, err := ch.newMessage()
		if err == nil {
			err = ch.publishRouted(routed{message: m, mandatory: ch.incoming.mandatory})
		}
		return err
	}}
}

// CloseChannel closes the channel with an error such as 404 or 406.
func CloseChannel(code uint16, text string) Outcome {
	return Outcome{func(*channel) *exception { return &exception{code: code, text: text, scope: channelScope} }}
}

// CloseConnection closes the connection with an error such as 320 or 541.
func CloseConnection(code uint16, text string) Outcome {
	return Outcome{func(*channel) *exception { return &exception{code: code, text: text, scope: connectionScope} }}
}

// HangUp takes the message, and ends the stream of the connection before the client
// is told so: to the client the publish is in doubt.
func HangUp() Outcome {
	return Outcome{func(ch *channel) *exception {
		ch.conn.out.end() // nothing more is told
		err := ch.publish()
		ch.conn.hangUp()
		return err
	}}
}

// Delay takes the message late, and so everything that the connection sends after it.
// Confirms come late, too.
func Delay(d time.Duration) Outcome {
	return Outcome{func(ch *channel) *exception {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ch.conn.gone:
		case <-ch.conn.broker.done:
		}
		return ch.publish()
	}}
}

// confirmOnly tells the publisher that its message was taken or not, with nothing
// done.
func (ch *channel) confirmOnly(accepted bool) {
	if ch.tx != nil {
		ch.tx.refused = ch.tx.refused || !accepted
		return
	}
	ch.settlePublish(accepted)
}

// Inject makes publishes meet a fault until remove is called. Of several that match,
// the one that was injected first counts.
func (b *Broker) Inject(f Fault) (remove func()) {
	injected := &injectedFault{Fault: f, left: f.Times}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(slices.Clone(b.faults), injected)
	b.faulty.Store(true)
	return func() { b.removeFault(injected) }
}

type injectedFault struct {
	Fault
	left int // times, guarded by broker.mu
}

func (b *Broker) removeFault(f *injectedFault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = slices.DeleteFunc(slices.Clone(b.faults), func(other *injectedFault) bool { return other == f })
	b.faulty.Store(len(b.faults) > 0)
}

// faultFor returns the outcome that a fault has for the message that a channel
// publishes; nil where it meets none.
func (b *Broker) faultFor(ch *channel) func(*channel) *exception {
	if !b.faulty.Load() {
		return nil
	}
	in := &ch.incoming
	p := Publish{
		VHost: ch.vhost.name, User: ch.conn.user, Exchange: in.exchange, RoutingKey: in.key,
		Mandatory: in.mandatory, Body: in.body,
	}
	b.mu.Lock()
	faults := b.faults
	b.mu.Unlock()
	for _, f := range faults {
		if (f.Match == nil || f.Match(p)) && b.countDown(f) {
			return f.Do.do
		}
	}
	return nil
}

// countDown counts a publish that meets a fault; false where the fault has ended.
func (b *Broker) countDown(f *injectedFault) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f.Times == 0 {
		return slices.Contains(b.faults, f)
	}
	f.left--
	return f.left >= 0
}

// RefuseConnections ends every connection that begins before it is answered, until
// it is called with false. Those that are open go on.
func (b *Broker) RefuseConnections(refuse bool) { b.refusing.Store(refuse) }

// CloseConnections closes every connection that is open with CONNECTION_FORCED and a
// reason, as an operator does or a broker that shuts down, and returns how many.
func (b *Broker) CloseConnections(reason string) int {
	all := b.opened()
	for _, c := range all {
		c.raise(fail(connectionForced, "%s", reason), 0)
	}
	return len(all)
}

// SetMemoryAlarm blocks connections that publish (connection.blocked) as if the broker
// were out of memory, until it is called with false.
func (b *Broker) SetMemoryAlarm(on bool) { b.memory.outside.force(on) }
