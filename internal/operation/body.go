package operation

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/schemas/jsonscan"
)

// CheckBody refuses the body of a request in which an object has a member twice, or a
// member of the operation in another case: encoding/json takes either, and the last one
// counts, so a check in front of the server would have seen another request. A body that is no
// JSON is left to huma.
func (op *Operation) CheckBody(body []byte) *problem.Problem {
	if op.body == nil {
		return nil
	}
	c := bodyChecker{reader: jsonscan.New(body), schemas: op.schemas}
	c.value("body", op.body)
	return c.refused
}

// bodyChecker reads a value together with its schema.
type bodyChecker struct {
	reader  *jsonscan.Reader
	schemas huma.Registry
	refused *problem.Problem // the first
}

// value reads a value; without a schema it may have any members, but none twice.
func (c *bodyChecker) value(place string, s *huma.Schema) {
	if s != nil && s.Ref != "" {
		s = c.schemas.SchemaFromRef(s.Ref)
	}
	switch c.reader.Peek() {
	case '{':
		seen := map[string]bool{}
		c.reader.Object(func(text []byte) {
			name := string(text)
			member := place + "." + name
			switch {
			case seen[name]:
				c.refuse(member, "expected each member once")
			case s != nil && s.Properties[name] == nil:
				c.checkCase(member, name, s)
			}
			seen[name] = true
			c.value(member, schemaOfMember(s, name))
		})
	case '[':
		n := 0
		c.reader.Array(func() {
			var items *huma.Schema
			if s != nil {
				items = s.Items
			}
			c.value(place+"["+strconv.Itoa(n)+"]", items)
			n++
		})
	}
}

// checkCase refuses the name of a property in another case.
func (c *bodyChecker) checkCase(place, name string, s *huma.Schema) {
	for property := range s.Properties {
		if strings.EqualFold(property, name) {
			c.refuse(place, fmt.Sprintf("expected the name in the case of %q", property))
		}
	}
}

func (c *bodyChecker) refuse(place, message string) {
	if c.refused == nil {
		c.refused = problem.Invalid(place, message)
	}
}

// schemaOfMember returns the schema of a member of an object, or nil if it may be anything.
func schemaOfMember(s *huma.Schema, name string) *huma.Schema {
	if s == nil {
		return nil
	}
	if property := s.Properties[name]; property != nil {
		return property
	}
	others, _ := s.AdditionalProperties.(*huma.Schema)
	return others
}
