package rabbit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Session is one life of a consumer: one channel, from its opening to its loss.
// Its methods may be called by any goroutine, also after it has ended.
type Session struct {
	// Deliveries closes when the session ends or Cancel has drained it.
	Deliveries <-chan amqp.Delivery

	conn    *Connection
	ch      *amqp.Channel
	stream  *frames // that ch is on
	tag     string  // of the newest consumer
	resumed int     // how often
	consume ConsumeConfig
	ctx     context.Context
	cancel  context.CancelCauseFunc
	over    chan struct{} // closed when its user is done with it
	lost    error         // why it ended, if its user did not want it; to be read when watched is closed
	watched chan struct{} // closed when watch has returned
}

var errSessionOver = errors.New("session ended by its user")

func consumerTag() string { return "watership-" + rand.Text() }

// Ack acknowledges the delivery with the tag, and with multiple all before it.
// In an ended session it does nothing and returns ErrSessionEnded: the broker
// has taken the message back and delivers it again.
func (s *Session) Ack(tag uint64, multiple bool) error {
	return s.settled(s.ch.Ack(tag, multiple))
}

// AckEach acknowledges the deliveries with the tags, as Ack does one, in one write.
func (s *Session) AckEach(tags []uint64) error {
	s.stream.out.hold()
	defer s.stream.out.release()
	for _, tag := range tags {
		if err := s.Ack(tag, false); err != nil {
			return err
		}
	}
	return nil
}

// Nack gives the delivery back, and with multiple all before it: to the queue
// with requeue, else to its dead-letter exchange, or to nowhere.
func (s *Session) Nack(tag uint64, multiple, requeue bool) error {
	return s.settled(s.ch.Nack(tag, multiple, requeue))
}

// settled: an acknowledgement that the channel could not send is one that the
// broker does not have, whatever the cause.
func (s *Session) settled(err error) error {
	if err != nil {
		return ErrSessionEnded
	}
	return nil
}

// Cancel stops the broker from handing out more. What it handed out already
// still comes out of Deliveries, which then closes; the session lives on for the
// acknowledgements.
func (s *Session) Cancel() error {
	if err := s.ch.Cancel(s.tag, false); err != nil {
		return fmt.Errorf("cancel consumer: %w", err)
	}
	return nil
}

// Resume consumes again with another prefetch, after Cancel and the end of
// Deliveries, which it replaces. Unacknowledged messages stay so. It must not run at
// the same time as Cancel.
//
// The consumer tag gets a number: a quorum queue goes on counting the deliveries to a
// tag while some of them are unacknowledged, and a channel on which the tag begins again
// asks for those that it seems to have missed, which ends the connection with a 541 on
// RabbitMQ 3.10.
func (s *Session) Resume(prefetch int) error {
	s.resumed++
	again := s.consume
	again.Prefetch = prefetch
	s.tag = fmt.Sprintf("%s-%d", s.consume.Tag, s.resumed)
	return s.begin(s.ch, again)
}

// watch ends the session's context when the channel or the consumer is gone.
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
	case <-s.ctx.Done():
	case <-s.over:
	}
	// The end of the deliveries may have been seen before the reason for it.
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

// lose is called by watch only, before watched is closed.
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

// end closes the channel, which gives back what is not acknowledged, and says
// why the session had been lost before, nil if it had not.
func (s *Session) end() error {
	close(s.over)
	<-s.watched
	s.conn.closeChannel(s.ch)
	return s.lost
}
