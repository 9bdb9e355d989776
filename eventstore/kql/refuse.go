package kql

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Fits reports whether the field can answer the query. A store that expands a
// pattern of fields omits the others: one text field among numbers would make it
// refuse the whole query.
func (n Is) Fits(field Field) bool { return n.refusal(field) == nil }

// Fits reports whether the field can answer the query.
func (n Range) Fits(field Field) bool { return n.refusal(field) == nil }

func (n Is) refusal(field Field) *FieldError {
	if n.Value.Pattern.Wild() {
		return n.wildRefusal(field)
	}
	return n.Value.refusal(field)
}

func (n Exists) refusal(Field) *FieldError { return nil }

// refusal returns the error of a range on a field that cannot answer it.
// Elasticsearch compares the values of a flattened field as text, by which 9 is
// more than 10, and only between two bounds. Kibana treats null as no bound at all,
// so that every event with the field matches.
func (n Range) refusal(field Field) *FieldError {
	if !n.Value.Quoted && n.Value.Pattern.Text() == "null" {
		return &FieldError{
			Field: field.Name, At: n.Value.At,
			Problem: "null is no value to compare with",
			Hint:    fmt.Sprintf(`write "not %s: *" for what has none, or "null" in quotes for that word`, field.written()),
		}
	}
	if field.Type == Long && isNumber(n.Value.Pattern.Text()) && !isLong(n.Value.Pattern.Text()) {
		return &FieldError{
			Field: field.Name, At: n.Value.At,
			Problem: fmt.Sprintf("%s is beyond the whole numbers of 64 bits, and %s has nothing else", n.Value.Pattern.Text(), field.written()),
		}
	}
	if field.Type != Flattened {
		return n.Value.refusal(field)
	}
	return &FieldError{
		Field:   field.Name,
		Problem: "ranges do not work on " + field.keyPattern(),
		Hint:    field.labelHint("numeric_labels"),
		At:      n.At,
	}
}

// wildRefusal returns the error of wildcards on a field that cannot answer them. On a
// flattened key Elasticsearch accepts wildcards that match wrongly, since it keeps
// keys and values in one text: `headers.a: *x` also finds values that end in x under
// any other key, and `headers.a: b*x` finds such values under a key that begins with
// b, but none under the key a (8.19).
func (n Is) wildRefusal(field Field) *FieldError {
	_, prefix := n.Value.Pattern.Prefix()
	refused := &FieldError{Field: field.Name, At: n.Value.At}
	switch {
	case field.Parent != "" && !prefix:
		refused.Problem = "on " + field.keyPattern() + " a wildcard works only at the end of a value"
		refused.Hint = field.labelHint("labels")
	case field.Type == Long, field.Type == Double, field.Type == Date, field.Type == Boolean:
		refused.Problem = fmt.Sprintf("wildcards do not work on %s, a field of type %s", field.written(), field.Type)
	default:
		return nil
	}
	return refused
}

// refusal returns the error of a value that the field cannot have.
func (v Value) refusal(field Field) *FieldError {
	text := v.Pattern.Text()
	refused := &FieldError{Field: field.Name, At: v.At}
	switch {
	case field.Type == Date && !isDate(text):
		refused.Problem = strconv.Quote(text) + " is not a date"
		refused.Hint = `write 2026-01-31, "2026-01-31T10:00:00Z", now-1h, now-1d/d or milliseconds since 1970`
	case field.Type == Boolean && text != "true" && text != "false":
		refused.Problem = fmt.Sprintf("%q is neither true nor false, and %s has nothing else", text, field.written())
	case (field.Type == Long || field.Type == Double) && !isNumber(text):
		refused.Problem = fmt.Sprintf("%q is not a number, and %s has nothing else", text, field.written())
	default:
		return nil
	}
	return refused
}

// written returns the name of a field as a query contains it.
func (f Field) written() string { return fieldString(Pattern{f.Name}) }

// keyPattern returns the pattern of all keys of a flattened field.
func (f Field) keyPattern() string {
	if f.Parent != "" {
		return f.Parent + ".*"
	}
	return f.Name
}

// labelHint suggests a list in the configuration that copies headers to fields of
// their own.
func (f Field) labelHint(list string) string {
	if f.Parent != "headers" {
		return ""
	}
	label := list + strings.TrimPrefix(f.Name, f.Parent)
	return fmt.Sprintf("put the header on the list %s and query %s", list, fieldString(Pattern{label}))
}

// isLong reports whether the integer part of a number fits 64 bits. A float64
// cannot distinguish the numbers next to the limits.
func isLong(number string) bool {
	const beyond = 1 << 63
	value, _ := strconv.ParseFloat(number, 64)
	if math.Abs(value) != beyond {
		return math.Abs(value) < beyond
	}
	exact, ok := new(big.Rat).SetString(number)
	return ok && new(big.Int).Quo(exact.Num(), exact.Denom()).IsInt64()
}

// isNumber accepts decimal numbers only; strconv parses more forms.
func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil && !strings.ContainsAny(text, "xXpPiInN_")
}
