package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
)

// indentXML puts each element on a line of its own, unless it has text alone.
// Every tag and every text stays as it is written; white space between elements
// goes. It says no to what is no well-formed XML.
func indentXML(body []byte) ([]byte, bool) {
	if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) {
		return nil, false
	}
	decoder := xml.NewDecoder(bytes.NewReader(body))
	decoder.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // it is UTF-8
	w := xmlIndenter{}
	for begin := int64(0); ; begin = decoder.InputOffset() {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return bytes.TrimSpace(w.Bytes()), w.elements > 0
		}
		if err != nil {
			return nil, false
		}
		w.token(token, string(body[begin:decoder.InputOffset()]))
	}
}

type xmlIndenter struct {
	bytes.Buffer
	depth    int
	elements int
	inline   bool // nothing but text has come since the tag that began this line
}

// token writes one token. raw is "" for the end of an element that ended in its
// own first tag.
func (w *xmlIndenter) token(token xml.Token, raw string) {
	switch token.(type) {
	case xml.StartElement:
		w.line(raw)
		w.depth++
		w.elements++
		w.inline = true
	case xml.EndElement:
		w.depth--
		switch {
		case raw == "":
		case w.inline:
			w.WriteString(raw)
		default:
			w.line(raw)
		}
		w.inline = false
	case xml.CharData:
		switch {
		case strings.TrimSpace(raw) == "":
		case w.inline:
			w.WriteString(raw)
		default: // text beside elements
			w.line(strings.TrimSpace(raw))
		}
	default: // comments, instructions, directives
		w.line(raw)
		w.inline = false
	}
}

func (w *xmlIndenter) line(text string) {
	w.WriteString("\n" + strings.Repeat("  ", w.depth) + text)
}
