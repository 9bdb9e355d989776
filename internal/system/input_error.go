package system

import (
	"fmt"
	"strings"
	"time"
)

// InputError is returned for a setting or an argument that cannot be used, which is a
// mistake of the caller and no failure of a server.
type InputError struct{ Err error }

// Error implements error.
func (e InputError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e InputError) Unwrap() error { return e.Err }

// InputErrorf returns an InputError with a text as fmt.Errorf makes it.
func InputErrorf(format string, args ...any) error { return InputError{fmt.Errorf(format, args...)} }

// Field is a value that a caller gives, by its name in requests of the API. A command has a flag
// for it, a page an element of a form.
type Field string

// The fields that errors name.
const (
	SinceField Field = "since"
	FromField  Field = "from"
	ToField    Field = "to"
	DSLField   Field = "dsl"
)

// FieldError reports wrong values of fields.
type FieldError struct {
	Fields  []Field
	Problem string // follows the names of the fields
}

// Error implements error, with the names of the API.
func (e *FieldError) Error() string { return e.Text(func(f Field) string { return string(f) }) }

// Text returns the error with other names of the fields.
func (e *FieldError) Text(nameOf func(Field) string) string {
	names := make([]string, len(e.Fields))
	for i, field := range e.Fields {
		names[i] = nameOf(field)
	}
	return strings.Join(names, " and ") + " " + e.Problem
}

func fieldErrorf(field Field, format string, args ...any) error {
	return InputError{&FieldError{[]Field{field}, fmt.Sprintf(format, args...)}}
}

// EmptyPeriodError is returned for a period that ends before it begins.
type EmptyPeriodError struct{ Begin, End time.Time }

// Error implements error.
func (e *EmptyPeriodError) Error() string {
	return fmt.Sprintf("no event can match: the period begins at %s and ends at %s", e.Begin.Format(time.RFC3339Nano), e.End.Format(time.RFC3339Nano))
}
