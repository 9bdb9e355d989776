package broker

import (
	"fmt"
	"slices"
	"time"
)

// Fault makes the broker misbehave, for tests of programs that have to survive it.
type Fault struct {
	// Method is the AMQP method that meets the fault, such as "queue.declare" or
	// "basic.consume". "": basic.publish.
	Method string

	// Match selects the requests that meet the fault. Nil: all. The goroutines of
	// connections call it, several at a time.
	Match func(Request) bool

	// Times is the number of requests that meet the fault before it ends by itself.
	// Zero: until the function that Inject returned is called.
	Times int

	// Do is the outcome of these requests.
	Do Outcome
}

// Request is a method that a client sends, with its arguments; those that a method
// does not have are empty.
type Request struct {
	VHost, User                 string
	Exchange, Queue, RoutingKey string
	Mandatory                   bool   // of basic.publish
	Body                        []byte // of basic.publish; must not be changed
}

// Outcome is the result of a request that meets a fault.
type Outcome struct {
	do          func(ch *channel, perform func() *exception) *exception
	publishOnly bool
}

// Nack refuses a message with basic.nack; in a transaction it makes the commit fail.
// A publisher without confirms loses the message and is not told.
func Nack() Outcome {
	return publishOutcome(func(ch *channel) *exception {
		if ch.tx != nil {
			ch.tx.refused = true
			return nil
		}
		ch.confirmPublish(false)
		return nil
	})
}

// Unroutable routes a message to no queue: a mandatory message is returned, and each
// is confirmed.
func Unroutable() Outcome {
	return publishOutcome(func(ch *channel) *exception {
		ch.vhost.lock()
		defer ch.vhost.unlock()
		m, err := ch.newMessage()
		if err == nil {
			err = ch.publishRouted(routed{message: m, mandatory: ch.incoming.mandatory})
		}
		return err
	})
}

// DelayConfirm routes a message at once and confirms it after d. Messages that are
// published later do not wait for it.
func DelayConfirm(d time.Duration) Outcome {
	return publishOutcome(func(ch *channel) *exception {
		ch.vhost.lock()
		defer ch.vhost.unlock()
		p, err := ch.routeIncoming()
		switch {
		case err != nil:
			return err
		case ch.tx != nil || !ch.confirms.on:
			return ch.publishRouted(p)
		}
		ch.confirmAfter(d, ch.enqueue(p))
		return nil
	})
}

func publishOutcome(do func(*channel) *exception) Outcome {
	return Outcome{func(ch *channel, _ func() *exception) *exception { return do(ch) }, true}
}

// CloseChannel closes the channel with an error such as 404 or 406, and does not
// perform the request.
func CloseChannel(code uint16, text string) Outcome { return closeOutcome(code, text, channelScope) }

// CloseConnection closes the connection with an error such as 320 or 541, and does not
// perform the request.
func CloseConnection(code uint16, text string) Outcome {
	return closeOutcome(code, text, connectionScope)
}

func closeOutcome(code uint16, text string, s scope) Outcome {
	return Outcome{do: func(*channel, func() *exception) *exception {
		return &exception{code: code, text: text, scope: s}
	}}
}

// DropConnection performs the request, and ends the TCP connection before the client
// gets an answer, so that it cannot know whether the request was performed.
func DropConnection() Outcome {
	return Outcome{do: func(ch *channel, perform func() *exception) *exception {
		ch.conn.out.close()
		err := perform()
		ch.conn.closeStream()
		return err
	}}
}

// Delay performs the request after d, and only then reads the next frames of the
// connection.
func Delay(d time.Duration) Outcome {
	return Outcome{do: func(ch *channel, perform func() *exception) *exception {
		ch.conn.sleep(d)
		return perform()
	}}
}

// sleep waits for d, or until the connection ends. It returns false where it ends.
func (c *connection) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.writerDone:
	case <-c.broker.done:
	}
	return false
}

// Inject makes requests meet a fault until remove is called. Of several faults that
// match a request, it meets the one that was injected first. Inject panics where the
// broker cannot do the fault, such as Nack of a queue.declare.
func (b *Broker) Inject(f Fault) (remove func()) {
	injected := &injectedFault{Fault: f, method: f.mustMethodID(), left: f.Times}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(slices.Clone(b.faults), injected)
	b.hasFaults.Store(true)
	return func() { b.removeFault(injected) }
}

// mustMethodID returns the method that meets the fault. It panics where the broker cannot
// do the fault.
func (f Fault) mustMethodID() methodID {
	method, known := basicPublish, true
	if f.Method != "" {
		method, known = requestNamed(f.Method)
	}
	switch {
	case !known:
		panic(fmt.Sprintf("broker: no fault can be injected into %q: name a method such as queue.declare", f.Method))
	case f.Do.do == nil:
		panic("broker: a fault has no outcome: set Fault.Do, such as to broker.Nack()")
	case f.Do.publishOnly && method != basicPublish:
		panic(fmt.Sprintf("broker: this outcome is for basic.publish, not for %s: use CloseChannel, CloseConnection, DropConnection or Delay", f.Method))
	}
	return method
}

type injectedFault struct {
	Fault
	method methodID
	left   int // of Times; guarded by broker.mu
}

func (b *Broker) removeFault(f *injectedFault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = slices.DeleteFunc(slices.Clone(b.faults), func(other *injectedFault) bool { return other == f })
	b.hasFaults.Store(len(b.faults) > 0)
}

// handleMethodWithFaults is handleMethod with the faults of all methods but
// basic.publish, which meets its faults when the body is complete.
func (ch *channel) handleMethodWithFaults(id methodID, args *decoder) *exception {
	if id == basicPublish || !ch.conn.broker.hasFaults.Load() {
		return ch.handleMethod(id, args)
	}
	own := *args // so that args stays on the stack
	err := ch.applyFault(id, own, func() *exception { return ch.handleMethod(id, &own) })
	*args = own
	return err
}

// applyFault performs a request, or the outcome of the first fault that matches it.
func (ch *channel) applyFault(id methodID, args decoder, perform func() *exception) *exception {
	b := ch.conn.broker
	b.mu.Lock()
	faults := b.faults
	b.mu.Unlock()
	r := ch.faultRequest(id, args)
	for _, f := range faults {
		if f.method == id && (f.Match == nil || f.Match(r)) && b.countDown(f) {
			return f.Do.do(ch, perform)
		}
	}
	return perform()
}

// countDown counts a request that meets a fault. It returns false where the fault has
// ended.
func (b *Broker) countDown(f *injectedFault) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f.Times == 0 {
		return slices.Contains(b.faults, f)
	}
	f.left--
	return f.left >= 0
}

// RefuseConnections ends each new connection before the handshake, until it is called
// with false. Open connections go on.
func (b *Broker) RefuseConnections(refuse bool) { b.refuseNew.Store(refuse) }

// CloseConnections closes all connections with CONNECTION_FORCED and a reason, as an
// operator or a broker that shuts down does, and returns their number.
func (b *Broker) CloseConnections(reason string) int {
	all := b.openConnections()
	for _, c := range all {
		c.closeWithError(newException(connectionForced, "%s", reason), 0)
	}
	return len(all)
}

// SetMemoryAlarm blocks connections that publish (connection.blocked) as if the broker
// were out of memory, until it is called with false.
func (b *Broker) SetMemoryAlarm(on bool) { b.memory.external.force(on) }
