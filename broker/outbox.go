package broker

import (
	"encoding/binary"
	"sync"
)

// outbox is what is still to be sent to a client. Appending never waits: consumers
// are passed over while it is full, and the reader, whose methods ask for replies,
// stops reading where it is far too full.
type outbox struct {
	frameMax uint32

	mu          sync.Mutex
	pending     []byte
	spare       []byte        // the writer's last batch, to be used again
	ended       bool          // nothing is taken any more
	stalled     bool          // a delivery was refused for want of room
	wake        chan struct{} // has a token when there is something for the writer
	room        chan struct{} // has a token when the writer took a batch
	readerWaits bool          // the reader waits for room
}

const (
	deliveryRoom = 1 << 20 // bytes of pending above which no delivery is added
	replyRoom    = 8 << 20 // bytes of pending above which the reader waits
	spareMax     = 4 << 20 // a greater buffer is not kept
)

func newOutbox() *outbox {
	return &outbox{frameMax: frameMinSize, wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// raw appends bytes that are no frame: a protocol header.
func (o *outbox) raw(b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending = append(o.pending, b...)
	signal(o.wake)
}

// method appends a method frame whose arguments args appends; nil for none.
func (o *outbox) method(channel uint16, id methodID, args func(b []byte) []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.pending = appendMethod(o.pending, channel, id, args)
		signal(o.wake)
	}
}

// content appends a method with a message.
func (o *outbox) content(channel uint16, id methodID, args func(b []byte) []byte, header, body []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		b := appendMethod(o.pending, channel, id, args)
		o.pending = appendContent(b, channel, header, body, o.frameMax)
		signal(o.wake)
	}
}

func appendMethod(b []byte, channel uint16, id methodID, args func(b []byte) []byte) []byte {
	b, start := beginFrame(b, frameMethod, channel)
	b = binary.BigEndian.AppendUint32(b, uint32(id))
	if args != nil {
		b = args(b)
	}
	return endFrame(b, start)
}

// delivery is a basic.deliver.
type delivery struct {
	channel     uint16
	consumer    string
	tag         uint64
	redelivered bool
	message     *message
	header      []byte
}

// deliver appends a delivery. The caller has looked at hasRoom.
func (o *outbox) deliver(d delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	b, start := beginFrame(o.pending, frameMethod, d.channel)
	b = binary.BigEndian.AppendUint32(b, uint32(basicDeliver))
	b = appendShortstr(b, d.consumer)
	b = binary.BigEndian.AppendUint64(b, d.tag)
	b = append(b, bit(0, d.redelivered))
	b = appendShortstr(b, d.message.exchange)
	b = endFrame(appendShortstr(b, d.message.key()), start)
	o.pending = appendContent(b, d.channel, d.header, d.message.body, o.frameMax)
	signal(o.wake)
}

// appendContent appends a content header and body frames (§4.2.6).
func appendContent(b []byte, channel uint16, header, body []byte, frameMax uint32) []byte {
	b, start := beginFrame(b, frameHeader, channel)
	b = binary.BigEndian.AppendUint32(b, classBasic<<16) // and no weight
	b = binary.BigEndian.AppendUint64(b, uint64(len(body)))
	b = endFrame(append(b, header...), start)
	for len(body) > 0 {
		part := body[:min(len(body), int(frameMax-frameOverhead))]
		body = body[len(part):]
		b, start = beginFrame(b, frameBody, channel)
		b = endFrame(append(b, part...), start)
	}
	return b
}

// hasRoom says whether a delivery may be added. Where it may not, take says so.
func (o *outbox) hasRoom() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pending) < deliveryRoom {
		return !o.ended
	}
	o.stalled = true
	return false
}

// heartbeat appends a heartbeat frame (§4.2.7).
func (o *outbox) heartbeat() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	b, start := beginFrame(o.pending, frameHeartbeat, 0)
	o.pending = endFrame(b, start)
	signal(o.wake)
}

// finish appends a last method. What is appended later is dropped, so that nothing
// follows a close.
func (o *outbox) finish(id methodID, args func(b []byte) []byte) {
	o.method(0, id, args)
	o.end()
}

// end takes nothing any more; what is pending is still sent.
func (o *outbox) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	signal(o.wake)
}

// takeBatch returns what is to be sent now, and whether consumers wait for the room
// that this makes. ended says that nothing will follow.
func (o *outbox) takeBatch() (batch []byte, stalled, ended bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	batch, o.pending, o.spare = o.pending, o.spare[:0], nil
	stalled, o.stalled = o.stalled, false
	if o.readerWaits {
		o.readerWaits = false
		signal(o.room)
	}
	return batch, stalled, o.ended
}

// recycle returns a batch that was sent, for its memory.
func (o *outbox) recycle(batch []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if cap(batch) <= spareMax {
		o.spare = batch[:0]
	}
}

// awaitRoom returns a channel to wait at before more replies are asked for; nil where
// there is room.
func (o *outbox) awaitRoom() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pending) < replyRoom {
		return nil
	}
	o.readerWaits = true
	return o.room
}
