package amqpstream

import (
	"encoding/binary"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Method frames of messages (AMQP 0-9-1 §1.8.3.13).
const (
	classBasic    = 60
	methodDeliver = 60
	argumentsAt   = frameHeader + 2 + 2
)

var errMalformed = errors.New("the broker sent a malformed delivery")

// deliveries assembles the deliveries of consumers from their frames: a method, a content
// header and, unless the message is empty, frames with its body. Frames of several channels
// may alternate. Only the goroutine that reads the stream uses it.
type deliveries struct {
	consumers consumers
	channels  map[uint16]*arriving

	body *arriving // nil, or the delivery whose body frame is being read
	rest int       // bytes of that frame that have not arrived, with its end
}

// arriving is a delivery of which not all frames have arrived.
type arriving struct {
	consumer *Consumer // nil: no delivery is arriving on the channel
	delivery amqp.Delivery
	content  bool   // the content header has arrived
	missing  uint64 // bytes of the body
}

// take takes a method or content header frame that belongs to a delivery of a consumer.
func (l *deliveries) take(frame []byte) (taken bool, err error) {
	channel := binary.BigEndian.Uint16(frame[1:])
	a := l.channels[channel]
	switch {
	case frame[0] == frameMethod:
		if a != nil {
			a.consumer = nil // a method ends an incomplete message
		}
		return l.begin(frame, channel)
	case a == nil || a.consumer == nil || a.content:
		return false, nil
	}
	a.content = true
	if a.missing, err = decodeContent(frame, &a.delivery); err != nil {
		return false, err
	}
	if a.missing == 0 {
		a.delivery.Body = []byte{}
		a.end()
	} else {
		a.delivery.Body = make([]byte, 0, min(a.missing, largeFrameMax))
	}
	return true, nil
}

// begin begins a delivery, if the frame is the deliver method of a consumer.
func (l *deliveries) begin(frame []byte, channel uint16) (begun bool, err error) {
	if len(frame) < argumentsAt+frameEnd || binary.BigEndian.Uint16(frame[frameHeader:]) != classBasic ||
		binary.BigEndian.Uint16(frame[frameHeader+2:]) != methodDeliver {
		return false, nil
	}
	r := fieldReader{rest: string(frame[argumentsAt : len(frame)-frameEnd])}
	consumer := l.consumers.find(r.shortText())
	if consumer == nil {
		return false, nil
	}
	a := l.channels[channel]
	if a == nil {
		a = &arriving{}
		if l.channels == nil {
			l.channels = map[uint16]*arriving{}
		}
		l.channels[channel] = a
	}
	*a = arriving{consumer: consumer}
	a.delivery.Acknowledger, a.delivery.ConsumerTag = consumer.acknowledger, consumer.Tag
	a.delivery.DeliveryTag = r.uint64()
	a.delivery.Redelivered = r.uint8()&1 == 1
	a.delivery.Exchange = r.shortText()
	a.delivery.RoutingKey = r.shortText()
	if r.failed || frame[len(frame)-frameEnd] != frameEndByte {
		return false, errMalformed
	}
	return true, nil
}

// takeBody takes the bytes at the start of b that belong to the body frame of a delivery.
// It returns 0 if none exists, or too few to tell.
func (l *deliveries) takeBody(b []byte) (taken int, err error) {
	if l.body == nil {
		if len(b) < frameHeader || b[0] != frameBody {
			return 0, nil
		}
		a := l.channels[binary.BigEndian.Uint16(b[1:])]
		if a == nil || a.consumer == nil || !a.content {
			return 0, nil
		}
		l.body, l.rest = a, int(binary.BigEndian.Uint32(b[3:]))+frameEnd
		taken = frameHeader
		b = b[frameHeader:]
	}
	if part := b[:min(len(b), l.rest-frameEnd)]; len(part) > 0 {
		l.body.delivery.Body = append(l.body.delivery.Body, part...)
		taken, l.rest, b = taken+len(part), l.rest-len(part), b[len(part):]
	}
	if len(b) == 0 {
		return taken, nil
	}
	if b[0] != frameEndByte {
		return 0, errMalformed
	}
	a := l.body
	l.body = nil
	if uint64(len(a.delivery.Body)) >= a.missing {
		a.end()
	}
	return taken + frameEnd, nil
}

// end passes the delivery to its consumer.
func (a *arriving) end() {
	a.consumer.put(&a.delivery)
	*a = arriving{}
}
