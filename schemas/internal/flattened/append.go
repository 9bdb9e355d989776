package flattened

import (
	"bytes"
	"encoding/json"

	"github.com/watershipmq/watership/schemas/internal/jsonappend"
)

// Append appends the JSON of a body for a flattened field, on one line: all of it if the field
// accepts it, and otherwise without the values that the field would refuse the document for. Of
// members with the same key it keeps the last. The objects of a list are a list of objects, which
// such a field indexes as one; the other elements have the key "". Append appends nothing, and
// returns false, for a body that is no object and no list, or has too many values.
func Append(dst, body []byte, most int) (longer []byte, ok bool) {
	s := scanner{data: body, room: allTerms, values: most}
	s.space()
	switch {
	case s.at == len(body) || body[s.at] != '{' && body[s.at] != '[':
		return dst, false
	case body[s.at] == '{' && s.whole():
		return jsonappend.OneLine(dst, body), true
	case s.values < 0 || !json.Valid(body):
		return dst, false
	}
	p := part{scanner: scanner{data: body, room: allTerms, values: most}, dst: dst}
	p.space()
	if !p.root() || p.isFull() {
		return dst, false
	}
	return p.dst, true
}

// part appends the values of valid JSON that a flattened field accepts.
type part struct {
	scanner
	dst     []byte
	members []member // of the open objects
}

// member is a member of an object in dst, with the comma after it.
type member struct {
	key        []byte
	begin, end int
	replaced   bool // by a later one with its key
}

// isFull reports whether there are too many values.
func (p *part) isFull() bool { return p.values < 0 || p.room < 0 }

// root appends an object, or a list of objects; it returns false for a list without elements.
func (p *part) root() bool {
	if p.data[p.at] == '{' {
		p.object(1, 0)
		return true
	}
	p.dst = append(p.dst, '[')
	begin := len(p.dst)
	if others := p.elements(nil); len(others) > 0 {
		p.dst = append(append(append(p.dst, `{"":[`...), others[:len(others)-1]...), "]},"...)
	}
	if len(p.dst) == begin {
		return false
	}
	p.dst[len(p.dst)-1] = ']' // the last comma
	return true
}

// elements appends the objects of a list and of lists in it, each with a comma after it.
// It appends the other elements to others.
func (p *part) elements(others []byte) []byte {
	const keyLength = len(".") // of the empty key
	p.at++
	for first := true; !p.isFull() && p.next(']', first); first = false {
		p.space()
		begin := len(p.dst)
		switch p.data[p.at] {
		case '{':
			p.object(1, 0)
			p.dst = append(p.dst, ',')
		case '[':
			others = p.elements(others)
		default:
			if p.value(2, keyLength) {
				others = append(append(others, p.dst[begin:]...), ',')
			}
			p.dst = p.dst[:begin]
		}
	}
	p.skip(']')
	return others
}

// value appends a value and returns true, or skips it if the field does not accept it.
func (p *part) value(depth, path int) bool {
	p.space()
	begin := p.at
	switch p.data[p.at] {
	case '{', '[':
		switch {
		case depth > MaxDepth:
			p.skipNested()
			return false
		case p.data[p.at] == '{':
			p.object(depth, path)
		default:
			p.array(depth, path)
		}
		return true
	case '"':
		p.string()
		return p.scalar(begin, path)
	case 't', 'n':
		p.at += len("true")
		return p.scalar(begin, path)
	case 'f':
		p.at += len("false")
		return p.scalar(begin, path)
	}
	p.number()
	return p.at-begin <= longestNumber && p.scalar(begin, path)
}

// scalar appends the scanned value that begins at an offset.
func (p *part) scalar(begin, path int) bool {
	p.values--
	size := path + p.at - begin
	if size >= MaxTerm {
		return false
	}
	p.room -= size + termOverhead
	p.dst = append(p.dst, p.data[begin:p.at]...)
	return true
}

func (p *part) array(depth, path int) {
	p.at++
	p.dst = append(p.dst, '[')
	begin := len(p.dst)
	for first := true; !p.isFull() && p.next(']', first); first = false {
		if p.value(depth+1, path) {
			p.dst = append(p.dst, ',')
		}
	}
	p.end(begin, ']')
}

// end replaces the last comma by the end of an object or a list.
func (p *part) end(begin int, with byte) {
	p.skip(with)
	if len(p.dst) > begin {
		p.dst = p.dst[:len(p.dst)-1]
	}
	p.dst = append(p.dst, with)
}

func (p *part) object(depth, path int) {
	p.at++
	p.dst = append(p.dst, '{')
	begin, outer := len(p.dst), len(p.members)
	names := names{outer: outer}
	replaced := false
	for first := true; !p.isFull() && p.next('}', first); first = false {
		p.space()
		from := p.at
		escaped, _ := p.string()
		quoted := p.data[from:p.at]
		m := member{key: quoted[1 : len(quoted)-1], begin: len(p.dst)}
		if escaped {
			var text string
			_ = json.Unmarshal(quoted, &text) // it is valid
			m.key = []byte(text)
		}
		p.skip(':')
		p.dst = append(append(p.dst, quoted...), ':')
		kept := p.value(depth+1, path+len(m.key)+1) && bytes.IndexByte(m.key, 0) < 0
		if earlier, found := names.find(p.members, m.key); found {
			p.members[earlier].replaced, replaced = true, true
		}
		if !kept {
			p.dst = p.dst[:m.begin]
			continue
		}
		p.dst = append(p.dst, ',')
		m.end = len(p.dst)
		p.members = append(p.members, m)
		names.add(p.members)
	}
	if replaced {
		p.compact(begin, p.members[outer:])
	}
	p.members = p.members[:outer]
	p.end(begin, '}')
}

// compact removes the members of the last object that were replaced.
func (p *part) compact(begin int, members []member) {
	end := begin
	for _, m := range members {
		if !m.replaced {
			end += copy(p.dst[end:], p.dst[m.begin:m.end])
		}
	}
	p.dst = p.dst[:end]
}

// skipNested skips an object or a list.
func (p *part) skipNested() {
	for depth := 0; ; {
		switch p.data[p.at] {
		case '"':
			p.string()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if p.at++; depth == 0 {
			return
		}
	}
}

// names finds the last member of an object with a key, the first of which is at outer.
type names struct {
	outer int
	index map[string]int // of the members, if they are many
}

const fewMembers = 16

func (n *names) add(members []member) {
	switch last := len(members) - 1; {
	case n.index != nil:
		n.index[string(members[last].key)] = last
	case len(members)-n.outer > fewMembers:
		n.index = map[string]int{}
		for i, m := range members[n.outer:] {
			n.index[string(m.key)] = n.outer + i
		}
	}
}

func (n *names) find(members []member, key []byte) (at int, found bool) {
	if n.index != nil {
		at, found = n.index[string(key)]
		return at, found
	}
	for at = len(members) - 1; at >= n.outer; at-- {
		if bytes.Equal(members[at].key, key) {
			return at, true
		}
	}
	return 0, false
}
