package privacy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// work redacts one event.
type work struct {
	*Redactor
	event      *schemas.Event
	applicable []rule
	again      bool   // it was redacted before: a text with the form of a hash is one
	key        []byte // of the hashes, which subjects may have a part in

	made     map[string]bool   // the hashes that have replaced values
	patterns []*rule           // of applicable
	values   map[string]string // that rules have found in headers, members and texts, with what replaces them
	known    *strings.Replacer // of values; nil: none, or more were found since
	tooMany  bool              // values were found

	messageChanged, textsChanged bool
}

// shortestElsewhere bounds the values of headers and members that are replaced in other texts as well:
// a shorter one, such as a digit, is part of anything.
const shortestElsewhere = 4 // bytes

// mostElsewhere bounds them. A body with more is hidden, and so are the texts of the event.
const mostElsewhere = 4096

func (w *work) redact() {
	e := w.event
	w.patterns = w.Redactor.patterns
	if !w.common {
		w.patterns = patternsOf(w.applicable)
	}
	w.headerRules()
	w.textRules(true)
	w.body()
	w.textRules(false)
	w.headers()
	p := &e.Envelope.Properties
	for _, text := range []*string{
		&e.Envelope.RoutingKey, &p.ContentType, &p.ContentEncoding, &p.CorrelationID, &p.ReplyTo, &p.MessageID, &p.Type, &p.UserID, &p.AppID,
	} {
		w.messageChanged = w.inText(text) || w.messageChanged
	}
	mayBeCut := []*string{
		&e.Failure.Message, &e.Failure.Stack, &e.Failure.Type, &e.Failure.Group, &e.Answer,
		&e.QuarantinedFailure.Message, &e.QuarantinedFailure.Stack, &e.QuarantinedFailure.Type, &e.Audit.Object, &e.Audit.Client,
	}
	if len(w.patterns)+len(w.values) > 0 && !w.again {
		for _, text := range mayBeCut {
			w.textsChanged = cutWord(text) || w.textsChanged
		}
	}
	for _, text := range append(mayBeCut, &e.Receiver, &e.Stream.ID, &e.Audit.Reason) {
		if w.tooMany && !w.cfg.KeepUnknown && *text != "" {
			*text, w.textsChanged = w.hash("dropped", *text), true
		}
		w.textsChanged = w.inText(text) || w.textsChanged
	}
}

// textRules replaces the texts that rules name, of the message or of the event alone.
func (w *work) textRules(ofMessage bool) {
	for i := range w.applicable {
		if rule := &w.applicable[i]; rule.Text != "" && ofMessage != isOfEvent(rule.Text) {
			for _, text := range texts(w.event, rule.Text) {
				w.whole(text, rule)
			}
		}
	}
}

// isOfEvent reports whether one of Texts is no part of the message.
func isOfEvent(name string) bool {
	return name == "answer" || name == "error" || name == "stack" || name == "stream"
}

// cutWord removes the last word of a text that was shortened, and numbers before it: they may be a part of a
// value, which no pattern finds.
func cutWord(text *string) (cut bool) {
	const ellipsis, longestWord = "…", 100
	rest, cut := strings.CutSuffix(*text, ellipsis)
	if cut {
		rest = rest[:max(len(rest)-longestWord, 1+strings.LastIndexAny(rest, " \n\t\"'<>,;"))]
		*text = strings.ToValidUTF8(strings.TrimRight(rest, " -0123456789"), "") + ellipsis
	}
	return cut
}

// whole replaces a whole text by its hash.
func (w *work) whole(text *string, by *rule) {
	if *text == "" {
		return
	}
	*text = w.replaced(by, *text)
	if isOfEvent(by.Text) {
		w.textsChanged = true
	} else {
		w.messageChanged = true
	}
}

// replaced returns what replaces a value of a header, a member or a text, which is replaced in other texts
// of the event as well.
func (w *work) replaced(by *rule, value string) string {
	key := w.key
	if by.Subject || by.Text == "stream" { // by which events are found, also those that do not know their subject
		key = w.cfg.HashKeys[0]
	}
	hash := w.hashBy(key, by.As, value)
	if _, found := w.values[value]; !found && hash != value && len(value) >= shortestElsewhere {
		if w.tooMany = w.tooMany || len(w.values) == mostElsewhere; !w.tooMany {
			w.values[value], w.known = hash, nil
		}
	}
	return hash
}

// replacer replaces a value before another one with which it begins.
func (w *work) replacer() *strings.Replacer {
	if w.known == nil {
		var pairs []string
		for _, value := range slices.SortedFunc(maps.Keys(w.values), func(a, b string) int { return len(b) - len(a) }) {
			pairs = append(pairs, value, w.values[value])
		}
		w.known = strings.NewReplacer(pairs...)
	}
	return w.known
}

// inText replaces the values of rules, and what patterns find.
func (w *work) inText(text *string) (changed bool) {
	redacted := w.redacted(*text, w.patterns)
	changed = redacted != *text
	*text = redacted
	return changed
}

// redacted returns a text without the values of rules and what patterns find. Values are replaced first,
// since a pattern may find a part of one.
func (w *work) redacted(text string, patterns []*rule) string {
	if len(w.values) > 0 && text != "" {
		text = w.between(text, w.replacer().Replace)
	}
	return w.replace(text, patterns)
}

// replace replaces what patterns find in a text.
func (w *work) replace(text string, patterns []*rule) string {
	for _, p := range patterns {
		for _, d := range p.detectors {
			if d.may(text) {
				text = w.replaceBy(d, p.As, text)
			}
		}
	}
	return text
}

// replaceBy replaces the matches of a detector. Of a match with hashes, also at its ends, the rest is replaced,
// because a hash is no text to search, and the text around it must not stay.
func (w *work) replaceBy(d detector, as, text string) string {
	var b strings.Builder
	hashes, copied := w.hashesIn(text), 0
	for from := 0; from < len(text); {
		begin, end, value := d.find(text[from:])
		if begin < 0 {
			break
		}
		begin, end = from+begin, from+end
		if end <= begin { // an expression has found nothing here, and may find more
			from = begin + 1
			continue
		}
		for len(hashes) > 0 && hashes[0].end <= begin {
			hashes = hashes[1:]
		}
		replacement := ""
		if len(hashes) > 0 && hashes[0].begin < end {
			begin = min(begin, hashes[0].begin)
			for _, hash := range hashes {
				if hash.begin >= end {
					break
				}
				end = max(end, hash.end)
			}
			replacement = w.between(text[begin:end], func(part string) string { return w.hash(as, part) })
		} else {
			replacement = w.hash(as, value)
		}
		b.WriteString(text[copied:begin])
		b.WriteString(replacement)
		from, copied = end, end
	}
	if copied == 0 {
		return text
	}
	b.WriteString(text[copied:])
	return b.String()
}

// headerRules replaces the headers that rules name.
func (w *work) headerRules() {
	headers := &w.event.Envelope.Headers
	for i := range w.applicable {
		rule := &w.applicable[i]
		if rule.Header == "" {
			continue
		}
		for name, value := range *headers {
			if strings.EqualFold(name, rule.Header) {
				if !w.messageChanged {
					*headers, w.messageChanged = maps.Clone(*headers), true
				}
				(*headers)[name] = leaves(value, func(value string) string { return w.replaced(rule, value) })
			}
		}
	}
}

// headers replaces what patterns find in headers.
func (w *work) headers() {
	redacted, changed := w.table(w.event.Envelope.Headers)
	if changed {
		w.event.Envelope.Headers, w.messageChanged = redacted, true
	}
}

func (w *work) table(table amqp.Table) (amqp.Table, bool) {
	var changed amqp.Table
	for name, value := range table {
		redacted, isOther := w.field(value)
		if !isOther {
			continue
		}
		if changed == nil {
			changed = maps.Clone(table)
		}
		changed[name] = redacted
	}
	return changed, changed != nil
}

func (w *work) field(value any) (redacted any, changed bool) {
	switch v := value.(type) {
	case string:
		changed = w.inText(&v)
		return v, changed
	case amqp.Table:
		if table, changed := w.table(v); changed {
			return table, true
		}
	case []any:
		var list []any
		for i, element := range v {
			if redacted, isOther := w.field(element); isOther {
				if list == nil {
					list = slices.Clone(v)
				}
				list[i] = redacted
			}
		}
		return list, list != nil
	case []byte:
		text := string(v)
		if !utf8.Valid(v) {
			if w.cfg.KeepUnknown || len(w.patterns)+len(w.values) == 0 {
				return nil, false
			}
			return w.hash("dropped", text), true
		}
		changed = w.inText(&text)
		return text, changed
	case int64, int32, float64, float32:
		text := plain(v)
		changed = w.inText(&text)
		return text, changed
	}
	return nil, false
}

// leaves replaces each value in a header.
func leaves(value any, replaced func(value string) string) any {
	switch v := value.(type) {
	case nil:
		return nil
	case amqp.Table:
		table := amqp.Table{}
		for name, member := range v {
			table[name] = leaves(member, replaced)
		}
		return table
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = leaves(element, replaced)
		}
		return list
	case []byte:
		value = string(v)
	}
	return replaced(plain(value))
}

// plain returns the text of a value in a header, of a number without an exponent.
func plain(value any) string {
	switch v := value.(type) {
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case float32:
		return strconv.FormatFloat(float64(v), 'f', -1, 32)
	}
	return fmt.Sprint(value)
}
