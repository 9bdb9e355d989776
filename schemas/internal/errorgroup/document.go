package errorgroup

import (
	"cmp"
	"slices"
	"strings"
)

// findDocument returns the place of the first JSON or HTML in a text; -1: none exists.
func findDocument(text string) (at, end int) {
	for i := range len(text) {
		switch text[i] {
		case '{', '[':
			if beginsJSON(text[i:]) {
				p := parser{text: text[i:]}
				p.value("", "", 0)
				return i, i + p.at
			}
		case '<':
			if beginsMarkup(text[i:]) {
				return i, len(text)
			}
		}
	}
	return -1, 0
}

// beginsJSON reports whether a text begins with an object that has a member, or with a list of
// objects. Members may have single quotes, as Python prints them.
func beginsJSON(text string) bool {
	text = text[:min(len(text), 200)]
	if text[0] == '[' {
		text = strings.TrimLeft(text[1:], " \t\n")
		if text == "" || text[0] != '{' {
			return false
		}
	}
	text = strings.TrimLeft(text[1:], " \t\n")
	if text == "" || text[0] != '"' && text[0] != '\'' {
		return false
	}
	end := strings.IndexByte(text[1:], text[0])
	return end >= 0 && strings.HasPrefix(strings.TrimLeft(text[end+2:], " \t\n"), ":")
}

// beginsMarkup reports whether a text begins with HTML or XML.
func beginsMarkup(text string) bool {
	lower := strings.ToLower(text[:min(len(text), 24)])
	for _, tag := range []string{"<!doctype", "<html", "<head", "<body", "<title", "<?xml", "<h1", "<soap", "<s:envelope", "<error>", "<fault"} {
		if strings.HasPrefix(lower, tag) {
			return true
		}
	}
	return false
}

// tellDocument returns the text of a document about an error.
func tellDocument(text string, depth int) string {
	if text[0] == '<' {
		return tellMarkup(text)
	}
	p := parser{text: text, depth: depth}
	p.value("", "", 0)
	return p.tell()
}

// part is the text of a member.
type part struct {
	rank int // of its name
	name string
	text string
}

// Ranks of names of members.
const (
	rankStatus = iota
	rankCode
	rankType
	rankMessage
	rankField
	rankOther
	rankIgnored
)

// parser reads JSON, also if that was cut.
type parser struct {
	text  string
	at    int
	depth int // of messages within messages
	parts []part
	other []part   // of members that tell of no error as such
	names []string // of members of the document that are left out
}

const (
	maxNesting = 12
	maxParts   = 64
	maxTexts   = 8 // of a page
)

func (p *parser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// value reads a value of a member with a name, within one that has the name above.
func (p *parser) value(name, above string, nesting int) {
	p.space()
	if p.at >= len(p.text) {
		return
	}
	switch c := p.text[p.at]; {
	case nesting > maxNesting:
		p.at = len(p.text)
	case c == '{':
		p.members(name, nesting)
	case c == '[':
		p.elements(name, above, nesting)
	case c == '"' || c == '\'':
		text := p.quoted()
		p.add(name, above, text, nesting)
	default:
		begin := p.at
		for p.at < len(p.text) && strings.IndexByte(",]} \t\r\n", p.text[p.at]) < 0 {
			p.at++
		}
		p.add(name, above, p.text[begin:p.at], nesting)
	}
}

func (p *parser) members(above string, nesting int) {
	for p.at++; p.at < len(p.text); {
		p.space()
		if p.at >= len(p.text) {
			return
		}
		switch c := p.text[p.at]; c {
		case '}':
			p.at++
			return
		case '"', '\'':
			name := p.quoted()
			if p.space(); p.at < len(p.text) && p.text[p.at] == ':' {
				p.at++
				p.value(name, above, nesting+1)
			}
		default:
			p.at++
		}
	}
}

func (p *parser) elements(name, above string, nesting int) {
	for p.at++; p.at < len(p.text); {
		p.space()
		if p.at >= len(p.text) {
			return
		}
		switch p.text[p.at] {
		case ']':
			p.at++
			return
		case ',', '}', ':':
			p.at++
		default:
			p.value(name, above, nesting+1)
		}
	}
}

// quoted reads a text in quotes, of which a cut one ends with the document.
func (p *parser) quoted() string {
	quote, escaped := p.text[p.at], false
	begin := p.at + 1
	for p.at++; p.at < len(p.text) && p.text[p.at] != quote; p.at++ {
		if p.text[p.at] == '\\' {
			escaped = true
			p.at++
		}
	}
	end := min(p.at, len(p.text))
	p.at = min(p.at+1, len(p.text))
	text := p.text[begin:end]
	if escaped {
		text = escapes.Replace(text)
	}
	return text
}

var escapes = strings.NewReplacer(`\n`, "\n", `\r`, "", `\t`, " ", `\"`, `"`, `\'`, `'`, `\/`, "/", `\\`, `\`)

// add notes the text of a member.
func (p *parser) add(name, above, value string, nesting int) {
	value = strings.TrimSpace(value)
	rank := rankOf(name)
	p.note(name, rank, nesting)
	if value == "" || value == "null" || value == "None" || len(p.parts)+len(p.other) >= maxParts {
		return
	}
	if rank == rankOther && rankOf(above) == rankMessage { // such as errors: {email: [...]}
		value, rank = name+" "+value, rankMessage
	}
	one := part{rank, name, value}
	switch rank {
	case rankStatus:
		one.text = "status " + value
	case rankCode:
		one.text = "error code " + value
	case rankMessage:
		if value == "true" || value == "false" {
			return
		}
		one.text = choose(value, p.depth+1)
	case rankField:
		if strings.Trim(value, "0123456789") == "" {
			return
		}
	case rankIgnored:
		return
	case rankOther:
		one.text = name + "=" + value
		p.other = append(p.other, one)
		return
	}
	p.parts = append(p.parts, one)
}

// tell returns the texts of the members, in an order that does not depend on theirs.
func (p *parser) tell() string {
	parts := p.parts
	if !slices.ContainsFunc(parts, func(one part) bool { return one.rank == rankMessage || one.rank == rankCode || one.rank == rankType }) {
		parts = append(parts, p.other...)
		slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.text, b.text) })
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.name, b.name)) })
	var texts []string
	for _, one := range parts {
		if text := strings.TrimRight(strings.TrimSpace(one.text), ".:;,"); text != "" && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if len(p.names) > 0 {
		slices.Sort(p.names)
		texts = append(texts, "{"+strings.Join(slices.Compact(p.names), " ")+"}")
	}
	return strings.Join(texts, "; ")
}

// note notes the name of a member of the document whose value is left out: which members there
// are belongs to the kind of an error, since a service answers each of its kinds in one form.
func (p *parser) note(name string, rank, nesting int) {
	const most = 8
	if rank >= rankOther && nesting == 1 && name != "" && len(p.names) < most && isStatic(strings.ToLower(name)) {
		p.names = append(p.names, name)
	}
}

// rankOf returns the rank of a value by the name of its member.
func rankOf(name string) int {
	if rank, known := ranks[plainName(name)]; known {
		return rank
	}
	return rankOther
}

// plainName returns a name in lower case, without separators and prefixes of namespaces.
func plainName(name string) string {
	name = name[strings.LastIndexAny(name, ":@")+1:]
	return strings.ToLower(separatorsInNames.Replace(name))
}

var separatorsInNames = strings.NewReplacer("_", "", "-", "", "$", "")

var ranks = map[string]int{
	"status": rankStatus, "statuscode": rankStatus, "httpstatus": rankStatus, "httpcode": rankStatus, "httpstatuscode": rankStatus,
	"code": rankCode, "errorcode": rankCode, "errcode": rankCode, "errno": rankCode, "sqlstate": rankCode, "subcode": rankCode, "faultcode": rankCode,
	"resultcode": rankCode, "returncode": rankCode, "reasoncode": rankCode, "messagecode": rankCode, "key": rankCode, "messagekey": rankCode, "errornumber": rankCode,
	"type": rankType, "errortype": rankType, "exception": rankType, "exceptiontype": rankType, "exceptionclass": rankType, "errorclass": rankType, "kind": rankType, "class": rankType,
	"error": rankMessage, "errors": rankMessage, "message": rankMessage, "messages": rankMessage, "msg": rankMessage, "detail": rankMessage, "details": rankMessage,
	"title": rankMessage, "description": rankMessage, "errordescription": rankMessage, "errormessage": rankMessage, "errormsg": rankMessage, "errmsg": rankMessage,
	"reason": rankMessage, "cause": rankMessage, "rootcause": rankMessage, "faultstring": rankMessage, "fault": rankMessage, "text": rankMessage, "summary": rankMessage,
	"problem": rankMessage, "problems": rankMessage, "violations": rankMessage, "validationerrors": rankMessage, "fielderrors": rankMessage, "exceptionmessage": rankMessage, "developermessage": rankMessage,
	"usermessage": rankMessage, "failure": rankMessage, "failures": rankMessage, "err": rankMessage, "modelstate": rankMessage, "localizedmessage": rankMessage, "innererror": rankMessage, "innerexception": rankMessage,
	"field": rankField, "fields": rankField, "loc": rankField, "param": rankField, "property": rankField, "propertyname": rankField, "propertypath": rankField, "pointer": rankField, "attribute": rankField, "column": rankField,
	"trace": rankIgnored, "traceid": rankIgnored, "spanid": rankIgnored, "requestid": rankIgnored, "correlationid": rankIgnored, "timestamp": rankIgnored, "time": rankIgnored, "date": rankIgnored,
	"path": rankIgnored, "instance": rankIgnored, "uri": rankIgnored, "url": rankIgnored, "id": rankIgnored, "eventid": rankIgnored, "stack": rankIgnored, "stacktrace": rankIgnored,
	"traceback": rankIgnored, "hostid": rankIgnored, "host": rankIgnored, "hostname": rankIgnored, "server": rankIgnored, "duration": rankIgnored, "help": rankIgnored, "documentation": rankIgnored, "documentationurl": rankIgnored, "moreinfo": rankIgnored,
	"rejectedvalue": rankIgnored, "invalidvalue": rankIgnored, "input": rankIgnored, "value": rankIgnored, "line": rankIgnored, "file": rankIgnored, "success": rankIgnored, "ok": rankIgnored, "data": rankIgnored, "locations": rankIgnored,
	"attemptedvalue": rankIgnored, "objectname": rankIgnored, "arguments": rankIgnored, "ctx": rankIgnored, "resource": rankIgnored, "bucketname": rankIgnored,
}

// tellMarkup returns the title of a page with its first heading and message, or the parts of an
// XML document whose names say that they tell of an error.
func tellMarkup(text string) string {
	var p parser
	var texts []string
	add := func(text string) {
		text = firstLine(strings.TrimRight(strings.TrimSpace(unescape(text)), ".:"))
		if text != "" && len(texts) < maxTexts && !slices.ContainsFunc(texts, func(known string) bool { return strings.Contains(known, text) }) {
			texts = append(texts, text)
		}
	}
	tag, isMessage, plain := "", false, ""
	for at := 0; at < len(text); {
		open := strings.IndexByte(text[at:], '<')
		if open < 0 {
			open = len(text) - at
		}
		content := strings.TrimSpace(text[at : at+open])
		if content != "" {
			switch {
			case tag == "script" || tag == "style":
			case tag == "title" || tag == "h1" || tag == "pre" && len(texts) < 4, isMessage:
				add(content)
				isMessage = false
			case isMarkupLabel(content):
				isMessage = true
			case rankOf(tag) < rankField:
				p.add(tag, "", unescape(content), 2)
			case plain == "" && !strings.HasPrefix(tag, "?") && !strings.HasPrefix(tag, "!"):
				plain = content
			}
		}
		if at += open; at >= len(text) {
			break
		}
		end := strings.IndexByte(text[at:], '>')
		if end < 0 {
			break
		}
		tag = plainTag(text[at+1 : at+end])
		at += end + 1
	}
	if told := p.tell(); told != "" {
		add(told)
	}
	if len(texts) == 0 {
		add(plain)
	}
	return strings.Join(texts, "; ")
}

// isMarkupLabel reports whether the next text on a page is the message of an error.
func isMarkupLabel(text string) bool {
	switch strings.ToLower(strings.Trim(text, ": ")) {
	case "message", "exception", "error message", "description", "reason", "exception value", "exception message":
		return true
	}
	return false
}

func plainTag(tag string) string {
	if strings.HasPrefix(tag, "/") {
		return ""
	}
	name, _, _ := strings.Cut(tag, " ")
	return plainName(strings.TrimRight(name, "/"))
}

func unescape(text string) string {
	if strings.IndexByte(text, '&') < 0 {
		return text
	}
	return entities.Replace(text)
}

var entities = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&quot;", `"`, "&#39;", "'", "&#x27;", "'", "&apos;", "'", "&nbsp;", " ", "&ndash;", "-", "&amp;", "&")
