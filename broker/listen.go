package broker

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// Pauses after an error of Accept that is temporary.
const (
	firstAcceptPause = 5 * time.Millisecond
	longAcceptPause  = time.Second
)

// Listen accepts connections at a TCP address such as 127.0.0.1:0 until Close, and
// returns the address with its port. Failed receives the error of a listener that ends
// earlier.
func (b *Broker) Listen(addr string) (net.Addr, error) { return b.listen(addr, false) }

// ListenInternal is Listen for the process that the broker is a part of. Its
// connections may publish up to twice the memory limit, since a consumer that publishes
// before it acknowledges could not empty the queues of a full broker otherwise.
// CloseExternal leaves them open.
func (b *Broker) ListenInternal(addr string) (net.Addr, error) { return b.listen(addr, true) }

func (b *Broker) listen(addr string, internal bool) (net.Addr, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for AMQP: %w", err)
	}
	if err := b.spawn(func() { b.report(b.serve(listener, internal)) }); err != nil {
		listener.Close()
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.address == nil && !internal {
		b.address = listener.Addr()
	}
	return listener.Addr(), nil
}

// Failed receives the error of the first listener of Listen that fails before Close.
// Other listeners and connections go on.
func (b *Broker) Failed() <-chan error { return b.failed }

func (b *Broker) report(err error) {
	if errors.Is(err, ErrClosed) {
		return
	}
	b.log.Error("AMQP listener failed", "error", err)
	select {
	case b.failed <- err:
	default:
	}
}

// Serve accepts connections from a listener until Close, or until the listener fails,
// and closes it. It retries after temporary errors, such as a lack of file descriptors.
// It returns ErrClosed or the error of the listener.
func (b *Broker) Serve(listener net.Listener) error { return b.serve(listener, false) }

func (b *Broker) serve(listener net.Listener, internal bool) error {
	defer listener.Close()
	if !b.track(listener, internal) {
		return ErrClosed
	}
	defer b.untrack(listener)
	var pause time.Duration
	for {
		stream, err := listener.Accept()
		if err != nil {
			if pause, err = b.pauseAccept(listener, pause, err); err != nil {
				return err
			}
			continue
		}
		pause = 0
		if err := b.accept(stream, internal); err != nil {
			stream.Close()
			return err
		}
	}
}

// pauseAccept waits after an error of Accept, and returns for how long. It returns an
// error where the listener is closed or the error is not temporary.
func (b *Broker) pauseAccept(listener net.Listener, last time.Duration, cause error) (time.Duration, error) {
	switch {
	case b.isClosing(listener):
		return 0, ErrClosed
	case !isShortage(cause):
		return 0, fmt.Errorf("accept AMQP connection: %w", cause)
	}
	pause := min(max(2*last, firstAcceptPause), longAcceptPause)
	if last == 0 {
		b.log.Error("AMQP connections have to wait", "address", listener.Addr().String(), "error", cause)
	}
	select {
	case <-time.After(pause):
		return pause, nil
	case <-b.done:
		return 0, ErrClosed
	}
}

// isShortage reports whether Accept can succeed again later.
func isShortage(err error) bool {
	var e interface{ Temporary() bool } // like net/http: no file descriptors, interrupts, aborted connections
	return errors.As(err, &e) && e.Temporary() || errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM)
}

// isClosing reports whether Close or CloseExternal closed the listener.
func (b *Broker) isClosing(listener net.Listener) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed || b.externalClosed && !b.listeners[listener]
}

func (b *Broker) accept(stream net.Conn, internal bool) error {
	if b.refuseNew.Load() && !internal || b.isStopped() {
		return stream.Close()
	}
	c := newConnection(b, stream)
	c.internal = internal
	return b.spawn(c.serve)
}

func (b *Broker) track(listener net.Listener, internal bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	refused := b.closed || b.externalClosed && !internal
	if !refused {
		b.listeners[listener] = internal
	}
	return !refused
}

func (b *Broker) untrack(listener net.Listener) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.listeners, listener)
}
