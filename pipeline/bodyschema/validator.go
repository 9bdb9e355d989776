package bodyschema

import (
	"errors"
	"reflect"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// validator validates one value at a time, in a bounded number of steps. A schema whose
// alternatives contain themselves takes exponentially many for a nested value, and the
// library has no way to end a validation.
type validator struct {
	compiled *jsonschema.Schema
	steps    int // left
}

// errTooManySteps lets all further parts fail at once, so that a validation ends.
var errTooManySteps = errors.New("too many steps")

// newValidator returns the validator of a compiled schema that is used nowhere else. It adds
// a format to each part of the schema: the library compares a value with the format before
// it compares the members and the items with other parts.
func newValidator(compiled *jsonschema.Schema) *validator {
	v := &validator{compiled: compiled}
	eachPart(reflect.ValueOf(compiled), map[*jsonschema.Schema]bool{}, func(part *jsonschema.Schema) {
		counting := jsonschema.Format{Validate: func(any) error { return nil }}
		if part.Format != nil {
			counting = *part.Format
		}
		next := counting.Validate
		counting.Validate = func(value any) error {
			if v.steps--; v.steps < 0 {
				return errTooManySteps
			}
			return next(value)
		}
		part.Format = &counting
	})
	return v
}

// validate returns the error of the library, or errTooManySteps.
func (v *validator) validate(value any, maxSteps int) (invalid, err error) {
	v.steps = maxSteps
	invalid = v.compiled.Validate(value)
	if v.steps < 0 {
		return nil, errTooManySteps
	}
	return invalid, nil
}

// eachPart calls f once with each part of a schema, in the fields where the library keeps them.
func eachPart(in reflect.Value, seen map[*jsonschema.Schema]bool, f func(*jsonschema.Schema)) {
	switch in.Kind() {
	case reflect.Pointer:
		part, is := in.Interface().(*jsonschema.Schema)
		switch {
		case in.IsNil() || is && seen[part]:
			return
		case is:
			seen[part] = true
			defer f(part)
		}
		eachPart(in.Elem(), seen, f)
	case reflect.Interface:
		eachPart(in.Elem(), seen, f)
	case reflect.Struct:
		for i := range in.NumField() {
			if in.Type().Field(i).IsExported() {
				eachPart(in.Field(i), seen, f)
			}
		}
	case reflect.Slice:
		for i := range in.Len() {
			eachPart(in.Index(i), seen, f)
		}
	case reflect.Map:
		for _, key := range in.MapKeys() {
			eachPart(in.MapIndex(key), seen, f)
		}
	}
}
