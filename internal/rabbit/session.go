package rabbit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/amqpstream"
)

// Session is one channel of a consumer, from its opening to its loss. Its methods
// are safe for concurrent use, also after it has ended.
type Session struct {
	// Deliveries closes when the session ends, or when the last delivery after Cancel
	// was received.
	Deliveries <-chan amqp.Delivery

	conn   *Connection
	ch     *amqp.Channel
	stream *amqpstream.Conn // of the connection of ch
	tag    string           // of the current consumer
	config ConsumeConfig
	ctx    context.Context
	cancel context.CancelCauseFunc
	over   chan struct{} // closed by end

	guardLost <-chan struct{} // closed when the guard allows the session no longer

	lost    error         // why the channel or consumer ended, nil if closed by end; read it only after watched is closed
	watched chan struct{} // closed when watch returns
}

var errGuardLost = errors.New("the process may not consume the queue any longer")

var errSessionOver = errors.New("session ended by its user")

func consumerTag() string { return "watership-" + rand.Text() }

// Ack acknowledges the delivery with the tag, and with multiple all earlier ones.
// In an ended session it does nothing and returns ErrSessionEnded: the broker has
// requeued the message and delivers it again.
func (s *Session) Ack(tag uint64, multiple bool) error {
	return s.ackError(s.ch.Ack(tag, multiple))
}

// AckEach acknowledges each of the tags, with the errors of Ack, in one write.
func (s *Session) AckEach(tags []uint64) error {
	s.stream.Cork()
	defer s.stream.Uncork()
	for _, tag := range tags {
		if err := s.Ack(tag, false); err != nil {
			return err
		}
	}
	return nil
}

// Nack rejects the delivery with the tag, and with multiple all earlier ones: with
// requeue they return to the queue, otherwise they are dead-lettered, or discarded
// without a dead-letter exchange.
func (s *Session) Nack(tag uint64, multiple, requeue bool) error {
	return s.ackError(s.ch.Nack(tag, multiple, requeue))
}

// ackError returns ErrSessionEnded for any error of an acknowledgement: whatever the
// cause, the broker has not received it.
func (s *Session) ackError(err error) error {
	if err != nil {
		return ErrSessionEnded
	}
	return nil
}

// Cancel stops the broker from sending more deliveries. Deliveries already received
// stay in Deliveries, which then closes; the session stays open for
// acknowledgements.
func (s *Session) Cancel() error {
	if err := s.ch.Cancel(s.tag, false); err != nil {
		return fmt.Errorf("cancel consumer: %w", err)
	}
	return nil
}

// Resume consumes again with another prefetch, after Cancel and the end of
// Deliveries, which it replaces. Unacknowledged messages stay unacknowledged. It
// must not run concurrently with Cancel.
//
// The consumer has another tag: a quorum queue continues its delivery
// count per tag while some deliveries are unacknowledged. If the tag is reused, the
// channel asks the queue for the deliveries that appear to be missing, which ends
// the connection with a 541 on RabbitMQ 3.10.
func (s *Session) Resume(prefetch int) error {
	again := s.config
	again.Prefetch = prefetch
	return s.consume(s.ch, again)
}

// watch cancels the session's context when the channel or the consumer is lost.
func (s *Session) watch(conn *link, closed <-chan *amqp.Error, cancelled <-chan string) {
	defer close(s.watched)
	select {
	case reason := <-closed:
		s.lose(channelLoss(conn, reason))
		return
	case tag, ok := <-cancelled:
		if ok {
			s.lose(consumerLoss(tag))
			return
		}
	case <-s.guardLost:
		s.lose(errGuardLost)
		return
	case <-s.ctx.Done():
	case <-s.over:
	}
	// Deliveries may have closed before the reason arrived.
	select {
	case tag, ok := <-cancelled:
		if ok {
			s.lose(consumerLoss(tag))
			return
		}
	default:
	}
	if s.ch.IsClosed() {
		s.lose(channelLoss(conn, <-closed))
	}
	s.cancel(errSessionOver)
}

// lose records why the session was lost. Only watch calls it, before watched is
// closed.
func (s *Session) lose(reason error) {
	s.lost = reason
	s.cancel(reason)
}

func consumerLoss(tag string) error {
	return fmt.Errorf("the broker cancelled consumer %q, as it does when the queue is deleted", tag)
}

func channelLoss(conn *link, reason *amqp.Error) error {
	switch {
	case reason == nil:
		return errors.New("channel closed")
	case reason.Server && !conn.IsClosed():
		return fmt.Errorf("the broker closed the channel: %w", reason)
	}
	return lossError(reason)
}

// end closes the channel, which requeues unacknowledged messages, and returns why
// the session was lost before, nil if it was not.
func (s *Session) end() error {
	close(s.over)
	<-s.watched
	s.conn.closeChannel(s.ch)
	return s.lost
}
