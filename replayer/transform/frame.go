package transform

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/tablejson"
)

// request asks a process to apply a program to a page of messages.
type request struct {
	program  string
	messages []schemas.Envelope
}

// response has the result of one message. The process sends it before it begins with the next
// message, so that a process that ends does so for the first message without a response.
type response struct {
	changed schemas.Envelope
	keep    bool
	failed  string // problem of an *Error
	limit   string // problem of a *LimitError, after which the process ends
	last    bool   // of the page: messages after it are asked for again
}

// Requests and responses travel in frames: the length of the rest in four bytes, then texts,
// each after its length. JSON would replace bytes of texts that are not UTF-8.

// frame has the first messages, as many as fit a page: at least one.
func (r request) frame(dst []byte) []byte {
	dst = appendText(begin(dst), r.program)
	for begin := len(dst); len(r.messages) > 0 && len(dst)-begin < pageBytes; r.messages = r.messages[1:] {
		dst = appendMessage(dst, r.messages[0], schemas.Envelope{})
	}
	return frame(dst)
}

func readRequest(in io.Reader) (request, error) {
	p, err := readFrame(in, maxFrame)
	if err != nil {
		return request{}, err
	}
	r := request{program: p.text()}
	for p.err == nil && len(p.rest) > 0 {
		r.messages = append(r.messages, p.message(schemas.Envelope{}))
	}
	return r, p.err
}

// frame has of the changed message only what differs from the one in the request.
func (r response) frame(dst []byte, asked schemas.Envelope) []byte {
	dst = appendText(appendText(appendFlag(appendFlag(begin(dst), r.last), r.keep), r.failed), r.limit)
	return frame(appendMessage(dst, r.changed, asked))
}

func readResponse(in io.Reader, asked schemas.Envelope) (response, error) {
	p, err := readFrame(in, maxOutput+4*len(asked.Body)+1<<20)
	if err != nil {
		return response{}, err
	}
	r := response{last: p.flag(), keep: p.flag(), failed: p.text(), limit: p.text()}
	r.changed = p.message(asked)
	return r, p.err
}

const (
	lengthSize = 4
	maxFrame   = 1 << 30
	pageBytes  = 1 << 20 // of messages in a request; one message may be larger
)

func begin(dst []byte) []byte { return append(dst[:0], make([]byte, lengthSize)...) }

func frame(dst []byte) []byte {
	binary.BigEndian.PutUint32(dst, uint32(len(dst)-lengthSize))
	return dst
}

func appendText[T string | []byte](dst []byte, text T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

func appendFlag(dst []byte, is bool) []byte {
	if is {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// appendMessage leaves out headers and a body that another message has, too.
func appendMessage(dst []byte, e, other schemas.Envelope) []byte {
	dst = appendText(appendText(dst, e.Exchange), e.RoutingKey)
	for _, text := range texts(&e.Properties) {
		dst = appendText(dst, *text)
	}
	dst = append(dst, e.Properties.DeliveryMode, e.Properties.Priority)
	dst = appendFlag(dst, e.Properties.Timestamp.IsZero())
	dst = binary.AppendVarint(dst, e.Properties.Timestamp.Unix())
	headers := tablejson.Append(nil, e.Headers)
	same := len(other.Headers) == len(e.Headers) && bytes.Equal(headers, tablejson.Append(nil, other.Headers))
	if dst = appendFlag(dst, same); !same {
		dst = appendText(dst, headers)
	}
	same = bytes.Equal(e.Body, other.Body)
	if dst = appendFlag(dst, same); !same {
		dst = appendText(dst, e.Body)
	}
	return dst
}

// texts are the properties that are texts.
func texts(p *schemas.Properties) []*string {
	return []*string{&p.ContentType, &p.ContentEncoding, &p.CorrelationID, &p.ReplyTo, &p.Expiration, &p.MessageID, &p.Type, &p.UserID, &p.AppID}
}

// parser reads the content of a frame. Once err is set, it returns zero values.
type parser struct {
	rest []byte
	err  error
}

func readFrame(in io.Reader, limit int) (*parser, error) {
	var length [lengthSize]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(length[:]))
	if size > int64(limit) {
		return nil, fmt.Errorf("a frame of %d bytes, expected at most %d", size, limit)
	}
	content := make([]byte, size)
	_, err := io.ReadFull(in, content)
	return &parser{rest: content}, err
}

var errFrame = errors.New("a frame ends within a value")

func (p *parser) take(n uint64) []byte {
	if n > uint64(len(p.rest)) {
		p.rest, p.err = nil, errFrame
		return nil
	}
	taken := p.rest[:n:n]
	p.rest = p.rest[n:]
	return taken
}

func (p *parser) bytes() []byte {
	length, n := binary.Uvarint(p.rest)
	p.take(uint64(max(n, 0)))
	if n <= 0 {
		p.err = errFrame
	}
	return p.take(length)
}

func (p *parser) text() string { return string(p.bytes()) }

func (p *parser) byte() byte {
	if one := p.take(1); one != nil {
		return one[0]
	}
	return 0
}

func (p *parser) flag() bool { return p.byte() == 1 }

// message reads a message, with headers and body of another one where they are the same.
func (p *parser) message(other schemas.Envelope) schemas.Envelope {
	e := schemas.Envelope{Exchange: p.text(), RoutingKey: p.text(), Headers: other.Headers, Body: other.Body, Redacted: other.Redacted}
	for _, text := range texts(&e.Properties) {
		*text = p.text()
	}
	e.Properties.DeliveryMode, e.Properties.Priority = p.byte(), p.byte()
	none := p.flag()
	seconds, n := binary.Varint(p.rest)
	p.take(uint64(max(n, 0)))
	if !none {
		e.Properties.Timestamp = time.Unix(seconds, 0)
	}
	if !p.flag() {
		headers, err := tablejson.Parse(p.bytes())
		if err != nil && p.err == nil {
			p.err = err
		}
		e.Headers = headers
	}
	if !p.flag() {
		e.Body = p.bytes()
	}
	return e
}
