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
const longestStreamID = longestEventID // bytes

// IsValid reports whether the id can name a stream: it has 1 to 512 bytes of UTF-8 without control characters.
func (m MessageStream) IsValid() bool {
	return m.ID != "" && len(m.ID) <= longestStreamID && utf8.ValidString(m.ID) && !strings.ContainsFunc(m.ID, unicode.IsControl)
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
