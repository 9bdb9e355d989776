package jsondiff

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Path is a place in a value of JSON.
type Path []segment

type segment struct {
	name    string // of a member
	isIndex bool
	index   int // of an element; anyIndex: of each
}

const anyIndex = -1

// ParsePath parses a path as in jq: .a.b, .["a b"], .items[0].id, or .items[].id for each
// element.
func ParsePath(text string) (Path, error) {
	rest := text
	var path Path
	for rest != "" {
		next, s, ok := cutSegment(rest)
		if !ok {
			return nil, fmt.Errorf(`path %q: expected a path such as .order.id, .items[].id or .["order id"]`, text)
		}
		path, rest = append(path, s), next
	}
	if len(path) == 0 {
		return nil, fmt.Errorf("expected a path such as .order.id")
	}
	return path, nil
}

const (
	member = `^\.([\pL_][\pL\pN_-]*)`
	index  = `^\.?\[([0-9]{0,9})\]`
	quoted = `^\.?\[("(?:[^"\\]|\\.)*")\]`
)

func cutSegment(text string) (rest string, s segment, ok bool) {
	if found := regexp.MustCompile(member).FindStringSubmatch(text); found != nil {
		return text[len(found[0]):], segment{name: found[1]}, true
	}
	if found := regexp.MustCompile(index).FindStringSubmatch(text); found != nil {
		s := segment{isIndex: true, index: anyIndex}
		if found[1] != "" {
			s.index, _ = strconv.Atoi(found[1])
		}
		return text[len(found[0]):], s, true
	}
	if found := regexp.MustCompile(quoted).FindStringSubmatch(text); found != nil {
		err := json.Unmarshal([]byte(found[1]), &s.name)
		return text[len(found[0]):], s, err == nil
	}
	return "", s, false
}

// matches reports whether a place is the one of the path.
func (p Path) matches(at Path) bool {
	if len(p) != len(at) {
		return false
	}
	for i, s := range p {
		isAny := s.isIndex && s.index == anyIndex && at[i].isIndex
		if s != at[i] && !isAny {
			return false
		}
	}
	return true
}

// String returns the path as ParsePath reads it.
func (p Path) String() string {
	if len(p) == 0 {
		return "."
	}
	var b strings.Builder
	for i, s := range p {
		switch {
		case s.isIndex && s.index == anyIndex:
			b.WriteString("[]")
		case s.isIndex:
			fmt.Fprintf(&b, "[%d]", s.index)
		case regexp.MustCompile(member + "$").MatchString("." + s.name):
			b.WriteString("." + s.name)
		default:
			name, _ := json.Marshal(s.name)
			if i == 0 {
				b.WriteByte('.')
			}
			fmt.Fprintf(&b, "[%s]", name)
		}
	}
	if p[0].isIndex {
		return "." + b.String()
	}
	return b.String()
}
