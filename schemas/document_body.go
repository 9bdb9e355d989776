package schemas

import (
	"bytes"
	"unicode/utf8"

	"github.com/watershipmq/watership/schemas/internal/flattened"
	"github.com/watershipmq/watership/schemas/internal/jsonappend"
)

// appendBody appends the exact body, as text where it is UTF-8, and makes what
// Elasticsearch accepts of JSON searchable by field. A body that has to be decoded is there twice,
// as text and exactly.
func (f DocumentFormat) appendBody(o *jsonappend.Object, e Envelope) {
	if text, decoded := e.decodedText(); decoded {
		if !f.NoBodyText {
			o.Key("text")
			o.Dst = jsonappend.Quoted(o.Dst, text)
		}
		f.appendJSON(o, text)
		appendRaw(o, e.Body) // after the text: former readers take the last of them
		return
	}
	name := "text"
	if f.NoBodyText {
		name = "unindexed"
	}
	if appendExactBody(o, name, e.Body) {
		f.appendJSON(o, e.Body)
	}
}

// appendExactBody appends a body as text of a field if it is UTF-8, and reports whether it is.
func appendExactBody(o *jsonappend.Object, name string, body []byte) (isText bool) {
	switch {
	case len(body) == 0:
		return false
	case !utf8.Valid(body):
		appendRaw(o, body)
		return false
	}
	o.Key(name)
	o.Dst = jsonappend.Quoted(o.Dst, body)
	return true
}

// appendJSON appends the members of a JSON body, for searches by field.
func (f DocumentFormat) appendJSON(o *jsonappend.Object, text []byte) {
	if f.NoBodyJSON {
		return
	}
	before := *o
	o.Key("json")
	var isJSON bool
	if o.Dst, isJSON = flattened.Append(o.Dst, withoutMark(text), f.maxValues()); !isJSON {
		*o = before
	}
}

// withoutMark returns JSON without a byte order mark, which a parser may ignore
// (RFC 8259 §8.1).
func withoutMark(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\ufeff")) }

func appendRaw(o *jsonappend.Object, body []byte) {
	if len(body) > 0 {
		o.Key("raw")
		o.Dst = jsonappend.Base64(o.Dst, body)
	}
}
