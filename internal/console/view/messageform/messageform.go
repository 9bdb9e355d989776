// Package messageform has the form in which people edit a copy of a message. Every unchanged
// value is sent exactly as the original has it: a value that the field of a
// form would change is edited as base64.
package messageform

import (
	"encoding/base64"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/schemas"
)

// Form has the fields of a copy as texts.
type Form struct {
	Queue      string // "": the exchange gets the copy, and not only a queue
	Exchange   string
	RoutingKey string
	Properties map[string]string // by the names of PropertyNames
	Headers    []Header

	Body     string
	BodyKind BodyKind
	Inexact  []string // fields whose values a form cannot keep

	CRLF bool // lines of the original end with \r\n, which is how forms send any line break
}

// BodyKind is the source of the body of a copy.
type BodyKind string

// The kinds of a body.
const (
	Text     BodyKind = "text"
	Base64   BodyKind = "base64"
	Original BodyKind = "original" // the body of the original, which is in no field
)

// maxBody is the size of a body that can be edited. The request has it encoded, with up to
// three bytes for each.
const maxBody = 192 << 10 // bytes

// New returns the form of an exact copy, as another message: without a message id, without
// the address for replies, which would get another one, and without the time of the
// original. hasBody is whether the envelope has the body.
func New(e schemas.Envelope, hasBody bool) Form {
	f := Form{Properties: properties(e.Properties)}
	for _, name := range NotCopied() {
		f.Properties[name] = ""
	}
	f.Exchange, f.RoutingKey = f.field(fieldExchange, e.Exchange), f.field(fieldKey, e.RoutingKey)
	for _, name := range PropertyNames() {
		f.Properties[name] = f.field(name, f.Properties[name])
	}
	headers := e.PublisherHeaders()
	delete(headers, pipeline.HeaderCausation)
	f.Headers = headersOf(headers)
	f.BodyKind, f.Body, f.CRLF = bodyOf(e.Body, hasBody)
	return f
}

// field returns the text of a field with one line. Texts that it cannot keep are hardly
// ever meant, so they have no other form.
func (f *Form) field(name, text string) string {
	if isText(text, "\t") {
		return text
	}
	f.Inexact = append(f.Inexact, name)
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
}

func bodyOf(body []byte, hasBody bool) (kind BodyKind, text string, crlf bool) {
	switch lines := strings.Count(string(body), "\n"); {
	case !hasBody:
		return Text, "", false
	case len(body) > maxBody:
		return Original, "", false
	case strings.Count(string(body), "\r\n") == lines && isText(strings.ReplaceAll(string(body), "\r\n", "\n"), "\n\t"):
		return Text, string(body), lines > 0
	case isText(string(body), "\n\t"):
		return Text, string(body), false
	}
	return Base64, base64.StdEncoding.EncodeToString(body), false
}

// isText reports whether the field of a form keeps a text: it has no control characters but
// the allowed ones.
func isText(text, allowed string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune(allowed, r) })
}

// Names of the fields that are no properties.
const (
	fieldQueue, fieldExchange, fieldKey = "queue", "exchange", "routing_key"
	fieldBody, fieldBodyKind, fieldCRLF = "body", "body_kind", "crlf"
)

// Read reads the fields that a browser has sent.
func Read(values url.Values) Form {
	f := Form{
		Queue: values.Get(fieldQueue), Exchange: values.Get(fieldExchange), RoutingKey: values.Get(fieldKey), Properties: map[string]string{},
		Body: values.Get(fieldBody), BodyKind: BodyKind(values.Get(fieldBodyKind)), CRLF: values.Get(fieldCRLF) != "",
	}
	for _, name := range PropertyNames() {
		f.Properties[name] = values.Get("property." + name)
	}
	f.Headers = readHeaders(values)
	return f
}
