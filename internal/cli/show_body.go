package cli

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/render/amqpvalue"
	"github.com/watershipmq/watership/internal/render/indent"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/schemas"
)

// headersPreview bounds the headers that are shown: the name of a value is as long as
// all the tables that contain it.
const headersPreview = 64 << 10 // bytes

func (p *page) headers(headers amqp091.Table) {
	if len(headers) == 0 {
		return
	}
	p.title("headers")
	full := p.Len() + headersPreview
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		p.header(name, headers[name], full)
	}
	if p.Len() >= full {
		p.WriteString("  … (search -o json prints all of them)\n")
	}
}

// header writes a value with its AMQP type, and each value within a table or an array,
// unless the page is full by then.
func (p *page) header(name string, value any, full int) {
	if p.Len() >= full {
		return
	}
	switch v := value.(type) {
	case amqp091.Table:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			p.header(name+"."+key, v[key], full)
		}
		if len(v) > 0 {
			return
		}
	case []any:
		for i, element := range v {
			p.header(fmt.Sprintf("%s[%d]", name, i), element, full)
		}
		if len(v) > 0 {
			return
		}
	}
	fmt.Fprintf(p, "  %s = %s (%s)\n", terminal.Escaped(name), terminal.Escaped(headerText(value)), amqpvalue.Type(value))
}

const longestHeader = 500 // characters

func headerText(value any) string {
	text := amqpvalue.Text(value)
	if runes := []rune(text); len(runes) > longestHeader {
		text = string(runes[:longestHeader]) + "…"
	}
	return text
}

const (
	bodyPreview = 64 << 10 // bytes of text
	hexPreview  = 1 << 10  // bytes of a body that is not text
)

func (p *page) body(e schemas.Event, mayRead bool) {
	p.title(fmt.Sprintf("body (%s)", wording.Plural(e.BodySize, "byte")))
	body := e.Envelope.Body
	switch {
	case e.BodyIn == schemas.BodyInUnstorable:
		p.WriteString("  too large for the store: it is in the queue of unstorable messages\n")
		return
	case e.BodyIn != schemas.BodyHere:
		p.WriteString("  not in the store\n")
		return
	case !mayRead && e.BodySize > 0:
		p.WriteString("  the token may not read bodies\n")
		return
	case len(body) == 0:
		return
	}
	text, isText := e.Envelope.BodyText()
	switch {
	case !isText || bytes.IndexByte(text, 0) >= 0:
		text, isText = body, false
	case bytes.HasSuffix(body, text):
		text = body // with its byte order mark
	default:
		p.WriteString("  decoded; --raw prints the exact bytes\n")
	}
	whole := p.preview(text, isText)
	if !whole {
		p.WriteString("  … (--raw prints all of it)\n")
	}
}

// preview writes the beginning of a body, or of its text, and reports whether that was all.
func (p *page) preview(body []byte, isText bool) bool {
	if !isText {
		p.block(hex.Dump(body[:min(len(body), hexPreview)]))
		return len(body) <= hexPreview
	}
	text, whole := indent.Text(body, bodyPreview)
	p.block(strings.ToValidUTF8(text, ""))
	return whole
}
