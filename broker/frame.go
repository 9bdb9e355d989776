package broker

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Frames (§4.2.3): type, channel, size, payload, end.
const (
	frameMethod    = 1
	frameHeader    = 2
	frameBody      = 3
	frameHeartbeat = 8
	frameEnd       = 0xCE

	frameHeadSize = 7
	frameOverhead = frameHeadSize + 1
	frameMinSize  = 4096
)

type frame struct {
	kind    byte
	channel uint16
	payload []byte // valid until the next frame is read
}

// frameReader reads frames from a stream. Its buffer holds the largest frame, so that
// payloads are not copied.
type frameReader struct {
	buffer   *bufio.Reader
	max      uint32 // bytes of a payload
	returned int    // bytes of the frame that next returned last
}

// newFrameReader returns a reader for a negotiated frame-max. Like RabbitMQ it accepts
// payloads up to frame-max, and so frames that are larger by their overhead.
func newFrameReader(r io.Reader, frameMax uint32) *frameReader {
	return &frameReader{buffer: bufio.NewReaderSize(r, int(frameMax)+frameOverhead), max: frameMax}
}

// next returns the next frame. A malformed frame is an exception; any other error is an
// error of the stream, and a stream that ends within a frame gives io.ErrUnexpectedEOF.
func (r *frameReader) next() (frame, error) {
	if _, err := r.buffer.Discard(r.returned); err != nil {
		return frame{}, err
	}
	r.returned = 0
	head, err := r.peek(frameHeadSize)
	if err != nil {
		return frame{}, err
	}
	f := frame{kind: head[0], channel: binary.BigEndian.Uint16(head[1:])}
	size := binary.BigEndian.Uint32(head[3:])
	if size > r.max {
		return f, frameError(f.kind, nil, fmt.Sprintf("{frame_too_large,%d,%d}", size, r.max-frameOverhead))
	}
	whole, err := r.peek(frameOverhead + int(size))
	if err != nil {
		return f, err
	}
	if end := whole[len(whole)-1]; end != frameEnd {
		return f, frameError(f.kind, whole[frameHeadSize:len(whole)-1], fmt.Sprintf("{invalid_frame_end_marker,%d}", end))
	}
	r.returned = len(whole)
	f.payload = whole[frameHeadSize : len(whole)-1]
	return f, nil
}

func (r *frameReader) peek(n int) ([]byte, error) {
	b, err := r.buffer.Peek(n)
	if errors.Is(err, io.EOF) && len(b) > 0 {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

// rawBytes returns the received bytes without reading frames.
func (r *frameReader) rawBytes() ([]byte, error) {
	if _, err := r.peek(1); err != nil {
		return nil, err
	}
	chunk := make([]byte, r.buffer.Buffered())
	n, err := r.buffer.Read(chunk)
	return chunk[:n], err
}

// hasFrame reports whether the next frame is in the buffer, so that next returns at
// once.
func (r *frameReader) hasFrame() bool {
	have := r.buffer.Buffered() - r.returned
	if have < frameHeadSize {
		return false
	}
	b, _ := r.buffer.Peek(r.returned + frameHeadSize)
	size := binary.BigEndian.Uint32(b[r.returned+3:])
	return uint64(have) >= uint64(size)+frameOverhead
}

func frameError(kind byte, payload []byte, why string) *exception {
	return newException(frameErrorCode, "type %d, %s: %s", kind, octetsOf(payload), why)
}

func octetsOf(payload []byte) string {
	if len(payload) > 16 {
		return "first 16 octets = " + octets(payload[:16])
	}
	return "all octets = " + octets(payload)
}

// octets formats bytes as Erlang does, as the texts of RabbitMQ contain them.
func octets(b []byte) string {
	printable := func(r rune) bool { return r >= ' ' && r <= '~' }
	if len(b) > 0 && strings.IndexFunc(string(b), func(r rune) bool { return !printable(r) }) < 0 {
		return fmt.Sprintf("<<%q>>", b)
	}
	text := "<<"
	for i, octet := range b {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprint(octet)
	}
	return text + ">>"
}

// beginFrame appends the head of a frame. endFrame sets its size.
func beginFrame(b []byte, kind byte, channel uint16) (out []byte, start int) {
	start = len(b)
	b = append(b, kind, byte(channel>>8), byte(channel), 0, 0, 0, 0)
	return b, start
}

func endFrame(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start+3:], uint32(len(b)-start-frameHeadSize))
	return append(b, frameEnd)
}
