package privacy

import (
	"bytes"
	"encoding/json"
	"mime"
	"strconv"
	"strings"

	"github.com/watershipmq/watership/schemas"
)

// maxBody bounds the text of a body that rules examine, in bytes; the time is linear in it.
const maxBody = 4 << 20

// body replaces values in the body, or the whole body if rules cannot examine it.
func (w *work) body() {
	e := &w.event.Envelope
	members := w.members()
	hidden := isNoEvent(w.event) && !w.cfg.KeepUnknown // it may have the headers of a message, or be compressed twice
	if w.event.BodyIn != schemas.BodyHere || len(e.Body) == 0 || len(members) == 0 && len(w.patterns) == 0 && len(w.values) == 0 && !hidden {
		return
	}
	encoded, isKnown := examined(e)
	if raw := bytes.TrimPrefix(e.Body, []byte("\ufeff")); isKnown && !bytes.Equal(raw, encoded) {
		text := string(raw)
		isKnown = !w.inText(&text) // or its bytes say more than its text, which claims another charset
	}
	isJSON := isKnown && json.Valid(encoded)
	if hidden || !w.cfg.KeepUnknown && (!isKnown || !isJSON && len(members) > 0) {
		w.setBody(w.hash("dropped", string(e.Body)))
		return
	}
	if !isKnown {
		return
	}
	text := string(encoded)
	redacted := text
	if isJSON {
		redacted = w.inMembers(text, members)
	}
	if w.tooMany && !w.cfg.KeepUnknown {
		w.setBody(w.hash("dropped", string(e.Body)))
		return
	}
	if isJSON {
		redacted = w.inJSON(redacted)
	} else {
		w.inText(&redacted)
	}
	if redacted != text {
		w.setBody(redacted)
	}
}

// examined returns the text of a body, and whether rules can examine it.
func examined(e *schemas.Envelope) (text []byte, ok bool) {
	text, isText := e.BodyText()
	return text, isText && len(text) <= maxBody && bytes.IndexByte(text, 0) < 0
}

func (w *work) members() (members []*rule) {
	for i := range w.applicable {
		if rule := &w.applicable[i]; rule.path != nil {
			members = append(members, rule)
		}
	}
	return members
}

// setBody replaces the body by text in UTF-8, which is neither compressed nor in another charset.
func (w *work) setBody(text string) {
	e := &w.event.Envelope
	e.Body, e.Properties.ContentEncoding, w.messageChanged = []byte(text), "", true
	if media, parameters, err := mime.ParseMediaType(e.Properties.ContentType); err == nil && parameters["charset"] != "" {
		e.Properties.ContentType = media
	}
}

// inMembers returns valid JSON without the values of members that rules name.
func (w *work) inMembers(text string, members []*rule) string {
	if len(members) == 0 {
		return text
	}
	j := jsonText{text: text, found: w.replaced}
	j.value(members, 0)
	return j.String()
}

// inJSON returns valid JSON whose strings have neither values of rules nor what patterns find. They are
// searched after all members have been read, whose values they may quote.
func (w *work) inJSON(text string) string {
	var patterns []*rule // that the text may have values of
	for _, p := range w.patterns {
		if strings.IndexByte(text, '\\') >= 0 || p.may(text) { // an escape can hide what may looks for
			patterns = append(patterns, p)
		}
	}
	if len(patterns) == 0 && len(w.values) == 0 {
		return text
	}
	j := jsonText{
		text:      text,
		inString:  func(text string) string { return w.redacted(text, patterns) },
		inLiteral: func(text string) string { return w.replace(text, patterns) },
	}
	j.value(nil, 0)
	return j.String()
}

// jsonText is valid JSON from its beginning to at, of which out has the part up to copied.
type jsonText struct {
	text   string
	at     int
	copied int
	out    strings.Builder

	found               func(by *rule, value string) string // replaces the value of a member
	inString, inLiteral func(text string) string            // return what stands in their places; nil: they stay
}

// String returns the JSON with the values that were put.
func (j *jsonText) String() string {
	if j.copied == 0 {
		return j.text
	}
	j.out.WriteString(j.text[j.copied:])
	return j.out.String()
}

// value reads a value. alive are the rules whose first names lead to it, depth many.
func (j *jsonText) value(alive []*rule, depth int) {
	j.space()
	for _, rule := range alive {
		if len(rule.path) == depth {
			j.replaceWhole(rule)
			return
		}
	}
	switch j.text[j.at] {
	case '{':
		j.object(alive, depth)
	case '[':
		for j.at++; j.more(']'); {
			j.value(alive, depth)
		}
	case '"':
		j.string()
	default:
		j.literal()
	}
}

func (j *jsonText) object(alive []*rule, depth int) {
	for j.at++; j.more('}'); {
		name := j.string()
		j.space()
		j.at++ // the colon
		var below []*rule
		for _, rule := range alive {
			if rule.path[depth] == name || rule.path[depth] == "*" {
				below = append(below, rule)
			}
		}
		j.value(below, depth+1)
	}
}

// more skips the text between elements, and reports whether there is another one.
func (j *jsonText) more(end byte) bool {
	for {
		switch c := j.text[j.at]; c {
		case ' ', '\t', '\r', '\n', ',':
			j.at++
		default:
			if c == end {
				j.at++
			}
			return c != end
		}
	}
}

func (j *jsonText) space() {
	for strings.IndexByte(" \t\r\n", j.text[j.at]) >= 0 {
		j.at++
	}
}

// skip skips a value, and returns it as it is written.
func (j *jsonText) skip() string {
	begin := j.at
	for depth := 0; ; {
		switch j.text[j.at] {
		case '{', '[':
			depth++
			j.at++
		case '}', ']':
			depth--
			j.at++
		case '"':
			j.quoted()
		case ' ', '\t', '\r', '\n', ',', ':':
			j.at++
		default:
			j.bare()
		}
		if depth == 0 {
			return j.text[begin:j.at]
		}
	}
}

// quoted skips a string, and returns it as it is written.
func (j *jsonText) quoted() string {
	begin := j.at
	for j.at++; j.text[j.at] != '"'; j.at++ {
		if j.text[j.at] == '\\' {
			j.at++
		}
	}
	j.at++
	return j.text[begin:j.at]
}

// bare skips a number or a word.
func (j *jsonText) bare() string {
	begin := j.at
	for j.at < len(j.text) && strings.IndexByte(" \t\r\n,]}", j.text[j.at]) < 0 {
		j.at++
	}
	return j.text[begin:j.at]
}

// string reads a string, and may replace it. It returns the former text.
func (j *jsonText) string() string {
	written := j.quoted()
	text := written[1 : len(written)-1]
	if strings.IndexByte(text, '\\') >= 0 {
		_ = json.Unmarshal([]byte(written), &text) // it is valid
	}
	if j.inString != nil {
		if redacted := j.inString(text); redacted != text {
			j.put(len(written), redacted)
		}
	}
	return text
}

func (j *jsonText) literal() {
	written := j.bare()
	if j.inLiteral != nil {
		if redacted := j.inLiteral(written); redacted != written {
			j.put(len(written), redacted)
		}
	}
}

// replaceWhole replaces a value that a rule names, unless it is null. Each element of a list is a
// value.
func (j *jsonText) replaceWhole(by *rule) {
	if j.text[j.at] == '[' {
		for j.at++; j.more(']'); {
			j.replaceWhole(by)
		}
		return
	}
	written := j.skip()
	value := written
	switch {
	case written == "null":
		return
	case written[0] == '"':
		_ = json.Unmarshal([]byte(written), &value)
	}
	j.put(len(written), j.found(by, value))
}

// put replaces the last bytes that were read by a string.
func (j *jsonText) put(size int, text string) {
	j.out.WriteString(j.text[j.copied : j.at-size])
	if plain := strconv.Quote(text); isPlain(text) {
		j.out.WriteString(plain)
	} else {
		quoted, _ := json.Marshal(text) // a string
		j.out.Write(quoted)
	}
	j.copied = j.at
}

// isPlain reports whether Go quotes a text as JSON does.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
