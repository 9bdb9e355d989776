package schemas

import (
	"bytes"
	"unicode/utf8"

	"github.com/watershipmq/watership/schemas/internal/flattened"
	"github.com/watershipmq/watership/schemas/internal/jsonappend"
)

// appendBody appends the exact body, as text where it is UTF-8, and makes what
// Elasticsearch accepts of JSON searchable by field.
func (f DocumentFormat) appendBody(o *jsonappend.Object, body []byte) {
	switch {
	case len(body) == 0:
		return
	case !utf8.Valid(body):
		appendRaw(o, body)
		return
	case f.NoBodyText:
		o.Key("unindexed")
	default:
		o.Key("text")
	}
	o.Dst = jsonappend.Quoted(o.Dst, body)
	if !f.NoBodyJSON {
		f.appendJSON(o, body)
	}
}

// appendJSON appends the members of a JSON body, for searches by field.
func (f DocumentFormat) appendJSON(o *jsonappend.Object, text []byte) {
	before := len(o.Dst)
	o.Key("json")
	var isJSON bool
	if o.Dst, isJSON = flattened.Append(o.Dst, withoutMark(text), f.maxValues()); !isJSON {
		o.Dst = o.Dst[:before]
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
