package actionpage

import (
	"context"
	"net/url"
	"reflect"
	"strings"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
)

// Of returns the action of an operation, whose path its page has. The template is named after the path,
// as failures_discard.html after /failures/discard. The body of its input has an eventfilter.Choice,
// operation.Bounds and perhaps Groups; its other texts are fields of the form with the same names. The
// body of its output has an operation.Outcome.
func Of[I, O any](api operation.Via, op operation.Declared[I, O]) Action {
	return With(api, op, func(Selection, *I) error { return nil })
}

// With is Of for an operation whose input has more than fields of the form: complete sets that, or
// returns a problem of the form.
func With[I, O any](api operation.Via, op operation.Declared[I, O], complete func(s Selection, in *I) error) Action {
	name := strings.TrimPrefix(op.Path, "/")
	section, _, _ := strings.Cut(name, "/")
	body, _ := reflect.TypeFor[I]().FieldByName("Body")
	_, byGroup := body.Type.FieldByName("Groups")
	return Action{
		Path: op.Path, Section: "/" + section, Template: strings.ReplaceAll(name, "/", "_") + ".html", ByGroup: byGroup,
		Call: func(ctx context.Context, key operation.IdempotencyKey, s Selection) (Result, error) {
			var in I
			fill(reflect.ValueOf(&in).Elem(), key, s)
			if err := complete(s, &in); err != nil {
				return Result{}, err
			}
			out, err := op.Call(ctx, api, in)
			done := reflect.ValueOf(out).FieldByName("Body")
			return Result{done.FieldByName("Outcome").Interface().(operation.Outcome), done.Interface()}, err
		},
	}
}

// fill sets the key of an input, and its body as With says.
func fill(input reflect.Value, key operation.IdempotencyKey, s Selection) {
	input.FieldByName("IdempotencyKey").Set(reflect.ValueOf(key))
	body := input.FieldByName("Body")
	for i := range body.NumField() {
		field := body.Type().Field(i)
		switch value := body.Field(i).Addr().Interface().(type) {
		case *eventfilter.Choice:
			*value = s.Choice
		case *operation.Bounds:
			*value = s.Bounds
		case *[]string:
			if field.Name == "Groups" {
				*value = s.Groups
			}
		default:
			if field.Type.Kind() == reflect.String {
				body.Field(i).SetString(given(s.Form, field))
			}
		}
	}
}

// given returns the field of a form with the name that a member has in JSON.
func given(form url.Values, member reflect.StructField) string {
	name, _, _ := strings.Cut(member.Tag.Get("json"), ",")
	return strings.TrimSpace(form.Get(name))
}
