package bodyschema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Error says why a body does not fit a schema.
type Error struct {
	Schema string  // name of its file
	Faults []Fault // at most 5
	More   int     // number of faults that are left out
}

// Fault is a value of a body and the rule of the schema that it breaks.
type Fault struct {
	Path string // JSON pointer to the value; "": the body itself
	Rule string // the rule, as FILE#/POINTER, or #/POINTER in the schema's own file; "": the body was not compared
	Text string
}

// ErrorType returns the type for retry.TypeOf.
func (*Error) ErrorType() string { return "schema fault" }

// Error implements error.
func (e *Error) Error() string {
	return "the body does not fit the schema " + e.Schema + ": " + e.List()
}

// List returns the faults, with their paths and rules.
func (e *Error) List() string {
	texts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		texts[i] = f.String()
	}
	list := strings.Join(texts, "; ")
	if e.More > 0 {
		list += fmt.Sprintf("; and %d more", e.More)
	}
	return list
}

// String returns the path, the text and the rule.
func (f Fault) String() string {
	if f.Rule == "" {
		return f.Text
	}
	return fmt.Sprintf("%s: %s (%s)", cmp.Or(f.Path, "the body"), f.Text, f.Rule)
}

const (
	maxFaults = 5
	maxText   = 160 // bytes of each text of a fault
)

// collected are the first faults of a body by their paths, and the number of the others.
type collected struct {
	faults []Fault
	more   int
}

// collect returns the faults of a validator's error; none for nil.
func collect(err error, base string) (all collected) {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return all
	}
	base = strings.TrimSuffix(base, "/") + "/"
	own, _, _ := strings.Cut(strings.TrimPrefix(invalid.SchemaURL, base), "#")
	all.add(invalid, base, own)
	return all
}

func (c *collected) add(e *jsonschema.ValidationError, base, own string) {
	switch e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
	case *kind.AnyOf, *kind.OneOf:
		c.insert(e, base, own)
	default:
		c.insert(e, base, own)
		return
	}
	for _, cause := range e.Causes {
		c.add(cause, base, own)
	}
}

// insert keeps the first faults in order of their paths: the validator finds them in any order.
func (c *collected) insert(e *jsonschema.ValidationError, base, own string) {
	place := func(f Fault) string { return f.Path + "\x00" + f.Rule }
	f := Fault{Path: pointer(e.InstanceLocation), Rule: ruleOf(e, base, own)}
	i, _ := slices.BinarySearchFunc(c.faults, f, func(a, b Fault) int { return cmp.Compare(place(a), place(b)) })
	if i == maxFaults {
		c.more++
		return
	}
	f.Text = cut(describe(e.ErrorKind))
	c.faults = slices.Insert(c.faults, i, f)
	if len(c.faults) > maxFaults {
		c.faults = c.faults[:maxFaults]
		c.more++
	}
}

func pointer(tokens []string) string {
	var text strings.Builder
	for _, token := range tokens {
		if text.Len() > maxText {
			break
		}
		text.WriteString("/" + strings.ReplaceAll(strings.ReplaceAll(token[:min(len(token), maxText)], "~", "~0"), "/", "~1"))
	}
	return cut(text.String())
}

func ruleOf(e *jsonschema.ValidationError, base, own string) string {
	location := strings.TrimPrefix(strings.TrimPrefix(e.SchemaURL, base), own)
	if plain, err := url.PathUnescape(location); err == nil {
		location = plain
	}
	return cut(location + pointer(e.ErrorKind.KeywordPath()))
}

// cut bounds a text that may have names from a body.
func cut(text string) string {
	if len(text) > maxText {
		text = text[:maxText-len("…")] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

// describe returns the text of a fault, which contains no value of a body.
func describe(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return fmt.Sprintf("expected %s, got %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Enum:
		return "expected one of " + inJSON(k.Want)
	case *kind.Const:
		return "expected " + inJSON(k.Want)
	case *kind.Format:
		return "expected the format " + k.Want
	case *kind.Pattern:
		return "expected the pattern " + k.Want
	case *kind.Required:
		return "expected " + names(k.Missing)
	case *kind.Dependency:
		return fmt.Sprintf("expected %s beside %s", names(k.Missing), inJSON(k.Prop))
	case *kind.DependentRequired:
		return fmt.Sprintf("expected %s beside %s", names(k.Missing), inJSON(k.Prop))
	case *kind.AdditionalProperties:
		slices.Sort(k.Properties)
		return "expected no " + names(k.Properties)
	case *kind.PropertyNames:
		return "expected no member " + inJSON(k.Property)
	case *kind.FalseSchema:
		return "expected no value"
	case *kind.Not:
		return "expected a value that does not fit this rule"
	case *kind.AnyOf:
		return "expected a value that fits one of the rules"
	case *kind.OneOf:
		if len(k.Subschemas) > 1 {
			return fmt.Sprintf("expected a value that fits one rule only, fits the rules %d and %d", k.Subschemas[0], k.Subschemas[1])
		}
		return "expected a value that fits one of the rules"
	case *kind.UniqueItems:
		return fmt.Sprintf("expected different items, items %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	}
	return cmp.Or(describeBound(k), strings.Join(k.KeywordPath(), "/")+" is not satisfied")
}

// describeBound describes a value that is too small, too large, too short or too long.
func describeBound(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Minimum:
		return "expected at least " + exact(k.Want)
	case *kind.Maximum:
		return "expected at most " + exact(k.Want)
	case *kind.ExclusiveMinimum:
		return "expected more than " + exact(k.Want)
	case *kind.ExclusiveMaximum:
		return "expected less than " + exact(k.Want)
	case *kind.MultipleOf:
		return "expected a multiple of " + exact(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("expected at least %d characters, got %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("expected at most %d characters, got %d", k.Want, k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("expected at least %d items, got %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("expected at most %d items, got %d", k.Want, k.Got)
	case *kind.AdditionalItems:
		return fmt.Sprintf("expected no more items, got %d", k.Count)
	case *kind.MinProperties:
		return fmt.Sprintf("expected at least %d members, got %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("expected at most %d members, got %d", k.Want, k.Got)
	case *kind.Contains:
		return "expected an item that fits the rule"
	case *kind.MinContains:
		return fmt.Sprintf("expected at least %d items that fit the rule, got %d", k.Want, len(k.Got))
	case *kind.MaxContains:
		return fmt.Sprintf("expected at most %d items that fit the rule, got %d", k.Want, len(k.Got))
	}
	return ""
}

// exact returns a number with all its digits.
func exact(n *big.Rat) string {
	if n.IsInt() {
		return n.Num().String()
	}
	if digits, finite := n.FloatPrec(); finite {
		return n.FloatString(digits)
	}
	return n.RatString()
}

func names(members []string) string {
	quoted := make([]string, 0, min(len(members), maxFaults))
	for _, name := range members[:min(len(members), maxFaults)] {
		quoted = append(quoted, inJSON(name))
	}
	if len(members) == 1 {
		return "member " + quoted[0]
	}
	return "members " + strings.Join(quoted, ", ")
}

// inJSON returns a value of the schema, or a name, as JSON.
func inJSON(value any) string {
	if name, is := value.(string); is {
		value = name[:min(len(name), maxText)]
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "another value"
	}
	return string(text)
}
