package wire

import (
	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
)

// bounded returns no stream for an id that cannot be searched, and no version for one that
// JSON parsers cannot read exactly.
func boundedStream(m schemas.MessageStream) schemas.MessageStream {
	if !m.IsValid() {
		return schemas.MessageStream{}
	}
	if !m.HasVersion || m.Version < 0 || m.Version > mostExact {
		m.Version, m.HasVersion = 0, false
	}
	return m
}

// setStream sets the stream of an event's message. An event without the body has the
// stream that its sender found in the body.
func (dec Decoder) setStream(e *schemas.Event) {
	switch {
	case dec.Streams == nil || e.Action.OfNoMessage():
		e.Stream = schemas.MessageStream{}
	case e.BodyIn == schemas.BodyHere || e.Stream.ID == "":
		e.Stream = boundedStream(dec.Streams(e.Envelope))
	}
}

func writeStream(m schemas.MessageStream, h header.Table) {
	h.SetText(headerStream, m.ID)
	if m.HasVersion {
		h[headerStreamVersion] = m.Version
	}
}

func readMessageStream(h header.Table) schemas.MessageStream {
	_, versioned := h[headerStreamVersion]
	return boundedStream(schemas.MessageStream{ID: h.Text(headerStream), Version: h.Int(headerStreamVersion), HasVersion: versioned})
}

// mostExact is the highest integer that every JSON parser reads exactly.
const mostExact = 1 << 53
