package broker

import (
	"encoding/binary"
	"sync"
)

// outbox is the buffer of frames to a client. Appending never waits: while it is full,
// consumers get no deliveries, and while it is overfull, the reader reads no methods
// that would need replies.
type outbox struct {
	frameMax uint32

	mu              sync.Mutex
	pending         []byte
	spare           []byte        // the last batch, for reuse
	closed          bool          // no more frames are appended
	deliveryRefused bool          // a delivery was refused because the outbox was full
	wake            chan struct{} // has a token when frames are pending
	room            chan struct{} // has a token when takeBatch made room
	readerWaits     bool          // the reader waits for room
}

const (
	deliveryRoom = 1 << 20 // bytes of pending above which no delivery is added
	replyRoom    = 8 << 20 // bytes of pending above which the reader waits
	spareMax     = 4 << 20 // largest buffer that is reused
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

// protocolHeader appends a protocol header, which is not a frame.
func (o *outbox) protocolHeader(b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending = append(o.pending, b...)
	signal(o.wake)
}

// method appends a method frame. args appends its arguments; nil for none.
func (o *outbox) method(channel uint16, id methodID, args func(b []byte) []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.pending = appendMethod(o.pending, channel, id, args)
		signal(o.wake)
	}
}

// content appends a method with a message.
func (o *outbox) content(channel uint16, id methodID, args func(b []byte) []byte, header, body []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
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

// delivery is the content of basic.deliver.
type delivery struct {
	channel     uint16
	consumer    string
	tag         uint64
	redelivered bool
	message     *message
	header      []byte
}

// deliver appends a delivery. The caller has called hasRoom.
func (o *outbox) deliver(d delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
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
	b = binary.BigEndian.AppendUint32(b, classBasic<<16) // with weight 0
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

// hasRoom reports whether a delivery may be appended. After false, takeBatch reports
// the refused delivery.
func (o *outbox) hasRoom() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pending) < deliveryRoom {
		return !o.closed
	}
	o.deliveryRefused = true
	return false
}

// heartbeat appends a heartbeat frame (§4.2.7).
func (o *outbox) heartbeat() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	b, start := beginFrame(o.pending, frameHeartbeat, 0)
	o.pending = endFrame(b, start)
	signal(o.wake)
}

// closeWith appends a method and closes the outbox, so that no frame follows it.
func (o *outbox) closeWith(id methodID, args func(b []byte) []byte) {
	o.method(0, id, args)
	o.close()
}

// close drops all frames that are appended later; pending ones are still sent.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	signal(o.wake)
}

// takeBatch returns the pending frames, and whether a delivery was refused since the
// last batch. closed reports that no frames will follow.
func (o *outbox) takeBatch() (batch []byte, deliveryRefused, closed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	batch, o.pending, o.spare = o.pending, o.spare[:0], nil
	deliveryRefused, o.deliveryRefused = o.deliveryRefused, false
	if o.readerWaits {
		o.readerWaits = false
		signal(o.room)
	}
	return batch, deliveryRefused, o.closed
}

// recycle reuses the memory of a batch that was sent.
func (o *outbox) recycle(batch []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if cap(batch) <= spareMax {
		o.spare = batch[:0]
	}
}

// awaitRoom returns a channel that receives when the reader may go on; nil where it may
// at once.
func (o *outbox) awaitRoom() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pending) < replyRoom {
		return nil
	}
	o.readerWaits = true
	return o.room
}
