package indent

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
)

// readFactor limits the part of a body that is read, in multiples of the printed part,
// since the parser needs many times as much memory.
const readFactor = 16

// indentXML writes each element on its own line, unless it contains only text. It
// changes no tag and no text, and drops white space between elements. It returns false
// for a body that is not well-formed XML, as far as it is read.
func indentXML(e *excerpt, body []byte) bool {
	body = bytes.TrimSpace(body)
	if !bytes.HasPrefix(body, []byte("<")) {
		return false
	}
	read := body[:min(len(body), readFactor*e.limit)]
	decoder := xml.NewDecoder(bytes.NewReader(read))
	decoder.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // it is UTF-8
	indenter := xmlIndenter{excerpt: e}
	for begin := int64(0); !e.truncated; begin = decoder.InputOffset() {
		token, err := decoder.Token()
		switch {
		case err == nil:
			indenter.token(token, read[begin:decoder.InputOffset()])
		case errors.Is(err, io.EOF) && len(read) == len(body):
			return indenter.elements > 0
		case len(read) == len(body) || decoder.InputOffset() < int64(len(read)):
			return false
		default:
			e.truncated = true // the body continues after read
		}
	}
	return indenter.elements > 0
}

type xmlIndenter struct {
	*excerpt
	depth    int
	elements int
	inline   bool // the line has only text after its tag
	hasLine  bool // there is a line
}

// token writes one token. raw is empty for the end of an element that ended in its
// own first tag.
func (w *xmlIndenter) token(token xml.Token, raw []byte) {
	switch token.(type) {
	case xml.StartElement:
		w.line(raw)
		w.depth++
		w.elements++
		w.inline = true
	case xml.EndElement:
		w.depth--
		switch {
		case len(raw) == 0:
		case w.inline:
			w.write(raw)
		default:
			w.line(raw)
		}
		w.inline = false
	case xml.CharData:
		switch trimmed := bytes.TrimSpace(raw); {
		case len(trimmed) == 0:
		case w.inline:
			w.write(raw)
		default: // text and elements in one element
			w.line(trimmed)
		}
	default: // comments, instructions, directives
		w.line(raw)
		w.inline = false
	}
}

func (w *xmlIndenter) line(text []byte) {
	if w.hasLine {
		w.newLine(w.depth)
	}
	w.hasLine = true
	w.write(text)
}
