package operation

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/danielgtaylor/huma/v2"

	"github.com/watershipmq/watership/internal/operation/problem"
)

// checkInput refuses the input of a call in this process whose values do not fit the schemas of
// the operation, with the problem of a request that has them. A parameter that is zero is absent.
func (op *Operation) checkInput(in any) error {
	c := inputChecker{Operation: op, place: huma.NewPathBuffer([]byte{}, 0)}
	if err := c.check(reflect.ValueOf(in).Elem()); err != nil {
		return err
	}
	return c.refusal()
}

// CheckArguments refuses arguments of an operation that is served, as Arguments describes them, whose values do
// not fit its schemas, with the problem of a request that has them.
func (op *Operation) CheckArguments(arguments map[string]json.RawMessage) error {
	c := inputChecker{Operation: op, place: huma.NewPathBuffer([]byte{}, 0)}
	rest := maps.Clone(arguments)
	for _, p := range op.parameters {
		values, given := texts(rest[p.Name])
		delete(rest, p.Name)
		if given && p.Schema.Type == huma.TypeString {
			c.validate(p.Schema, strings.Join(values, ","), p.In, p.Name)
		}
	}
	if op.body != nil {
		body := map[string]any{}
		for name, value := range rest {
			var member any
			_ = json.Unmarshal(value, &member) // it is JSON already
			body[name] = member
		}
		c.validate(op.body, body, "body")
	}
	return c.refusal()
}

// refusal returns the problem of the mistakes that were found.
func (c *inputChecker) refusal() error {
	if len(c.found.Errors) == 0 {
		return nil
	}
	refused := problem.Problem{Code: code.InvalidValue, Detail: "validation failed"}
	for _, err := range c.found.Errors {
		mistake := problem.Mistake{Message: err.Error()}
		if detail, is := err.(*huma.ErrorDetail); is {
			mistake = problem.Mistake{Location: detail.Location, Message: detail.Message}
		}
		refused.Errors = append(refused.Errors, mistake)
	}
	return refused.Complete()
}

type inputChecker struct {
	*Operation
	place *huma.PathBuffer
	found huma.ValidateResult
}

func (c *inputChecker) check(input reflect.Value) error {
	for i := range input.NumField() {
		field, value := input.Type().Field(i), input.Field(i)
		switch {
		case field.Name == "Body":
			if err := c.checkBody(value); err != nil {
				return err
			}
		case field.Anonymous:
			if err := c.check(value); err != nil {
				return err
			}
		default:
			c.checkParameter(field, value)
		}
	}
	return nil
}

func (c *inputChecker) checkParameter(field reflect.StructField, value reflect.Value) {
	for _, p := range c.parameters {
		name, is := field.Tag.Lookup(p.In)
		switch {
		case !is || name != p.Name && name != p.Name+",explode":
		case !value.IsZero():
			c.validate(p.Schema, value.Interface(), p.In, p.Name)
		case p.Required:
			c.at(p.In, p.Name)
			c.found.Add(c.place, "", "required "+p.In+" parameter is missing")
		}
	}
}

// checkBody checks the JSON of a body. One that may be left out is a pointer.
func (c *inputChecker) checkBody(value reflect.Value) error {
	if c.body == nil || value.Kind() == reflect.Pointer && value.IsNil() {
		return nil
	}
	text, err := json.Marshal(value.Interface())
	if err != nil {
		return fmt.Errorf("writing the input of %s: %w", c.ID, err)
	}
	if int64(len(text)) > c.BodyLimit() {
		return c.TooLarge()
	}
	var body any
	if err := json.Unmarshal(text, &body); err != nil {
		return fmt.Errorf("reading the input of %s: %w", c.ID, err)
	}
	c.validate(c.body, body, "body")
	return nil
}

func (c *inputChecker) at(names ...string) {
	c.place.Reset()
	for _, name := range names {
		c.place.Push(name)
	}
}

func (c *inputChecker) validate(schema *huma.Schema, value any, at ...string) {
	c.at(at...)
	huma.Validate(c.schemas, schema, c.place, huma.ModeWriteToServer, value, &c.found)
}

// TooLarge returns the problem of a request whose body is larger than the operation takes.
func (op *Operation) TooLarge() *problem.Problem {
	return &problem.Problem{
		Code: code.TooLarge, Detail: "the body of the request is too large",
		Remedy: "Send at most " + strconv.FormatInt(op.BodyLimit()>>20, 10) + " MiB.",
	}
}
