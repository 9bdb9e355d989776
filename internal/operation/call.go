package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"github.com/watershipmq/watership/internal/operation/access"
)

// Declared is an operation with the types of its input and its output. Their tags say where the
// request and the response have each value.
type Declared[I, O any] struct{ Operation }

// Declare returns a declaration.
func Declare[I, O any](op Operation) Declared[I, O] { return Declared[I, O]{op} }

// Fill sets the body of an input, which may be left out, and returns it.
func Fill[T any](body **T) *T {
	*body = new(T)
	return *body
}

// Via does operations: the functions of this process do, and the client of a server.
type Via interface {
	// Do does an operation. in points to its input, and out to its output, which may be set
	// although there is an error.
	Do(ctx context.Context, op *Operation, in, out any) error
}

// Call does the operation.
func (d Declared[I, O]) Call(ctx context.Context, via Via, in I) (O, error) {
	var out O
	err := via.Do(ctx, &d.Operation, &in, &out)
	return out, err
}

// function is an operation as Via.Do does it, and as Set.Repeat does.
type function struct {
	role   access.Role
	do     func(ctx context.Context, in, out any) error
	repeat func(ctx context.Context, input []byte) (output any, err error)
}

// Implement adds an operation to a set, with the function that does it.
func Implement[I, O any](s *Set, d Declared[I, O], do func(ctx context.Context, in *I) (*O, error)) {
	unguarded := do
	do = func(ctx context.Context, in *I) (*O, error) {
		if s.guard != nil {
			if err := s.guard(ctx, &d.Operation, in); err != nil {
				return nil, err
			}
		}
		return unguarded(ctx, in)
	}
	if s.huma != nil {
		do = answer(d.Operation, do)
		serve(s, d.Operation, do)
	}
	s.functions[d.ID] = function{
		d.Role,
		func(ctx context.Context, in, out any) error {
			done, err := do(ctx, in.(*I))
			if done != nil {
				*out.(*O) = *done
			}
			return err
		},
		func(ctx context.Context, input []byte) (any, error) {
			var in I
			if err := json.Unmarshal(input, &in); err != nil {
				return nil, fmt.Errorf("reading the input of %s: %w", d.ID, err)
			}
			return do(ctx, &in)
		},
	}
}

// Repeat does an operation with an input that was kept as JSON, and returns its output as JSON. The identity in
// the context needs the role of the operation.
func (s *Set) Repeat(ctx context.Context, id string, input []byte) (output []byte, err error) {
	op, known := s.functions[id]
	if !known {
		return nil, fmt.Errorf("operation %s is not implemented here", id)
	}
	if caller := access.FromContext(ctx); !caller.May(op.role) {
		return nil, access.NeedsRole(caller, op.role)
	}
	done, err := op.repeat(ctx, input)
	if err != nil {
		return nil, err
	}
	return json.Marshal(done)
}

// Do implements Via. The identity in the context needs the role of the operation. An operation that
// an API serves is done as its requests are: within its time, with an input that fits its schemas,
// and with problems as errors.
func (s *Set) Do(ctx context.Context, op *Operation, in, out any) error {
	do, known := s.functions[op.ID]
	if !known {
		return fmt.Errorf("operation %s is not implemented here", op.ID)
	}
	if caller := access.FromContext(ctx); !caller.May(op.Role) {
		refused := access.NeedsRole(caller, op.Role)
		access.Refuse(ctx, refused.Problem)
		return refused
	}
	if served, is := s.Find(op.Method + " " + s.prefix + op.Path); is {
		if err := served.checkInput(in); err != nil {
			return err
		}
	}
	setDefaults(reflect.ValueOf(in).Elem())
	return do.do(ctx, in, out)
}

// setDefaults sets the parameters of an input that are zero, and whose tags have a default.
func setDefaults(input reflect.Value) {
	for i := range input.NumField() {
		field, value := input.Type().Field(i), input.Field(i)
		text, has := field.Tag.Lookup("default")
		switch {
		case field.Anonymous && value.Kind() == reflect.Struct:
			setDefaults(value)
		case !has || !value.IsZero():
		case value.Kind() == reflect.String:
			value.SetString(text)
		case value.Kind() == reflect.Int:
			n, err := strconv.Atoi(text)
			if err != nil {
				panic(fmt.Sprintf("operation: default of %s: %v", field.Name, err)) // a mistake of a declaration
			}
			value.SetInt(int64(n))
		default:
			panic(fmt.Sprintf("operation: default of %s: its type %s has none", field.Name, value.Type()))
		}
	}
}
