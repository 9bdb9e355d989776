package schemas

import (
	"unicode/utf8"

	"github.com/watershipmq/watership/schemas/internal/flattened"
	"github.com/watershipmq/watership/schemas/internal/jsonappend"
)

// appendBody appends the exact body, as text where it is UTF-8, and makes a JSON
// object searchable by field where Elasticsearch accepts it.
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
	if !f.NoBodyJSON && flattened.Accepts(body, f.maxValues()) {
		o.Key("json")
		o.Dst = jsonappend.OneLine(o.Dst, body)
	}
}

func appendRaw(o *jsonappend.Object, body []byte) {
	if len(body) > 0 {
		o.Key("raw")
		o.Dst = jsonappend.Base64(o.Dst, body)
	}
}
