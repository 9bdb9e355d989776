package schemas

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/watershipmq/watership/schemas/internal/jsonappend"
	"github.com/watershipmq/watership/schemas/jsonscan"
)

// MessageStream is the stream of a message in the sense of event sourcing: the messages
// about one thing, such as an order. It is no part of the fingerprint.
type MessageStream struct {
	ID string // "": the message has none

	// Version is the place of the message in its stream, as its publisher counts. It counts
	// only with HasVersion, since many count from 0.
	Version    int64
	HasVersion bool
}

// longestStreamID is as long as an event's id.
const longestStreamID = longestID // bytes

// IsValid reports whether the id can name a stream: it has 1 to 512 bytes of UTF-8 without control characters.
func (m MessageStream) IsValid() bool {
	return m.ID != "" && len(m.ID) <= longestStreamID && utf8.ValidString(m.ID) && !strings.ContainsFunc(m.ID, unicode.IsControl)
}

// bounded returns no stream for an id that cannot be searched, and no version for one that
// JSON parsers cannot read exactly.
func (m MessageStream) bounded() MessageStream {
	if !m.IsValid() {
		return MessageStream{}
	}
	if !m.HasVersion || m.Version < 0 || m.Version > MaxSequence {
		m.Version, m.HasVersion = 0, false
	}
	return m
}

// setStream sets the stream of an event's message. An event without the body has the
// stream that its sender found in the body.
func (dec Decoder) setStream(e *Event) {
	switch {
	case dec.Streams == nil || e.Action.OfNoMessage():
		e.Stream = MessageStream{}
	case e.BodyIn == BodyHere || e.Stream.ID == "":
		e.Stream = dec.Streams(e.Envelope).bounded()
	}
}

func (m MessageStream) write(h typedTable) {
	h.setText(headerStream, m.ID)
	if m.HasVersion {
		h[headerStreamVersion] = m.Version
	}
}

func readMessageStream(h typedTable) MessageStream {
	_, versioned := h[headerStreamVersion]
	return MessageStream{h.text(headerStream), h.int(headerStreamVersion), versioned}.bounded()
}

func (m MessageStream) append(o *jsonappend.Object) {
	stream := o.Open("stream")
	o.String("id", m.ID)
	if m.HasVersion {
		o.Int("version", m.Version)
	}
	o.Close(stream)
}

func readStreamFields(r *jsonscan.Reader, m *MessageStream) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "id":
			m.ID = r.Text()
		case "version":
			m.Version, m.HasVersion = r.Int(64), true
		}
	})
}
