package schemas_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"strings"
	"testing"

	"golang.org/x/text/encoding/unicode"

	"github.com/watershipmq/watership/internal/wire/wiretest"
	"github.com/watershipmq/watership/schemas"
)

func compressed(text string, into func(io.Writer) io.WriteCloser) string {
	var b bytes.Buffer
	w := into(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

func zipped(text string) string {
	return compressed(text, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
}

func utf16(text string, order unicode.Endianness, mark unicode.BOMPolicy) string {
	encoded, _ := unicode.UTF16(order, mark).NewEncoder().String(text)
	return encoded
}

// Text is found and shown as such however it is encoded, and its bytes come back as they were.
func TestBodyText(t *testing.T) {
	const json = `{"order":42,"währung":"€"}`
	deflated := compressed(json, func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) })
	headless := compressed(json, func(w io.Writer) io.WriteCloser {
		f, _ := flate.NewWriter(w, flate.DefaultCompression)
		return f
	})
	const none = "none"
	for name, test := range map[string]struct{ contentType, contentEncoding, body, want string }{
		"UTF-8":                          {"application/json", "", json, json},
		"UTF-8 with a mark":              {"application/json", "", "\ufeff" + json, json},
		"gzip":                           {"application/json", "gzip", zipped(json), json},
		"gzip of Spring":                 {"application/json", "gzip:UTF-8", zipped("\ufeff" + json), json},
		"deflate":                        {"application/json", "Deflate", deflated, json},
		"deflate without a header":       {"application/json", "deflate", headless, json},
		"gzip of another charset":        {"text/plain; charset=iso-8859-1", "gzip", zipped("W\xe4hrung"), "Währung"},
		"Latin 1":                        {"text/plain; charset=ISO-8859-1", "", "W\xe4hrung", "Währung"},
		"Latin 1 of kombu":               {"text/plain", "iso-8859-1", "W\xe4hrung", "Währung"},
		"Shift JIS":                      {`text/xml; charset="Shift_JIS"`, "", "\x93\x8c\x8b\x9e", "東京"},
		"UTF-16":                         {"application/json; charset=UTF-16LE", "", utf16(json, unicode.LittleEndian, unicode.IgnoreBOM), json},
		"UTF-16, the other order":        {"application/json; charset=utf-16be", "", utf16("{}", unicode.BigEndian, unicode.IgnoreBOM), "{}"},
		"UTF-16 by its mark":             {"application/json", "", utf16(json, unicode.LittleEndian, unicode.UseBOM), json},
		"UTF-16, the other, by its mark": {"", "", utf16(json, unicode.BigEndian, unicode.UseBOM), json},
		"UTF-8 with another name":        {"text/plain; charset=iso-8859-1", "", "Währung", "Währung"},
		"no gzip":                        {"application/json", "gzip", json, json},
		"gzip of bytes":                  {"", "gzip", zipped("\xff\x00"), none},
		"gzip that ends early":           {"", "gzip", zipped(json)[:20], none},
		"gzip of too much":               {"", "gzip", zipped(strings.Repeat("a", 4<<20+1)), none},
		"gzip of much":                   {"", "gzip", zipped(strings.Repeat("a", 4<<20)), strings.Repeat("a", 4<<20)},
		"bytes":                          {"image/png", "", "\x89PNG", none},
		"bytes that claim to be UTF-8":   {"text/plain; charset=utf-8", "", "W\xe4hrung", none},
		"an unknown charset":             {"text/plain; charset=x-unknown", "", "W\xe4hrung", none},
		"nothing":                        {"", "", "", ""},
	} {
		e := wiretest.GoldenEvent()
		e.Envelope.Properties.ContentType, e.Envelope.Properties.ContentEncoding = test.contentType, test.contentEncoding
		e.Envelope.Body = []byte(test.body)
		text, isText := e.Envelope.BodyText()
		if isText != (test.want != none) || isText && string(text) != test.want {
			t.Errorf("%s: %.100q, %v", name, text, isText)
		}
		document := schemas.DocumentFormat{}.Append(nil, e)
		if parsed, err := schemas.ParseDocument(document); err != nil || string(parsed.Envelope.Body) != test.body {
			t.Errorf("%s: the body came back as %.100q, %v", name, parsed.Envelope.Body, err)
		}
		if test.want == json && !bytes.Contains(document, []byte(`"json":`+json)) {
			t.Errorf("%s: the document is %s", name, document)
		}
	}
}

// FuzzBodyText: a text is UTF-8 and bounded, whatever a message claims about it, and the body comes
// back as it was.
func FuzzBodyText(f *testing.F) {
	f.Add("application/json; charset=utf-16", "", []byte("{\x00}\x00"))
	f.Add("text/plain; charset=gb18030", "gzip, deflate", []byte("\x1f\x8b\x08"))
	f.Add("", "gzip:iso-2022-jp", []byte(zipped("text")))
	f.Fuzz(func(t *testing.T, contentType, contentEncoding string, body []byte) {
		e := wiretest.FailedEvent(body)
		e.Envelope.Properties.ContentType, e.Envelope.Properties.ContentEncoding = contentType, contentEncoding
		if text, isText := e.Envelope.BodyText(); isText && (len(text) > 4*4<<20 || string(text) != strings.ToValidUTF8(string(text), "?")) {
			t.Errorf("the text of %q is %q", body, text)
		}
		if parsed := wiretest.ThroughDocument(t, e); !bytes.Equal(parsed.Envelope.Body, body) {
			t.Errorf("body %q came back as %q", body, parsed.Envelope.Body)
		}
	})
}
