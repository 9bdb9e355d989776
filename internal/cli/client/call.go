package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/idempotency"
)

// Do implements operation.Via: it sends the request of an operation, and reads its response.
func (c *Client) Do(ctx context.Context, op *operation.Operation, in, out any) error {
	r := request{method: op.Method, path: op.Path, query: url.Values{}}
	if err := r.add(reflect.ValueOf(in).Elem()); err != nil {
		return err
	}
	var into any
	if body := reflect.ValueOf(out).Elem().FieldByName("Body"); body.IsValid() {
		into = body.Addr().Interface()
	}
	return c.do(ctx, op.Limit()+margin, r, into)
}

// add adds the values of an input, each where its tag says. The server knows the defaults of
// values that are zero.
func (r *request) add(input reflect.Value) error {
	for i := range input.NumField() {
		field, value := input.Type().Field(i), input.Field(i)
		query, isQuery := field.Tag.Lookup("query")
		path, isPath := field.Tag.Lookup("path")
		switch {
		case isPath:
			r.path = strings.ReplaceAll(r.path, "{"+path+"}", operation.Segment(value.String()))
		case isQuery && !value.IsZero():
			r.setQuery(query, value)
		case isQuery:
		case field.Tag.Get("header") == idempotency.Header:
			r.key = cmp.Or(value.String(), newKey())
		case field.Name == "RawBody":
			r.body, r.contentType = value.Bytes(), field.Tag.Get("contentType")
		case field.Name == "Body":
			if err := r.setBody(value); err != nil {
				return err
			}
		case field.Anonymous:
			if err := r.add(value); err != nil {
				return err
			}
		}
	}
	return nil
}

// setQuery sets a parameter. A list is one text, unless its tag asks for a parameter for each of
// its values.
func (r *request) setQuery(tag string, value reflect.Value) {
	name, isExploded := strings.CutSuffix(tag, ",explode")
	list, isList := value.Interface().([]string)
	switch {
	case isList && isExploded:
		r.query[name] = list
	case isList:
		r.query.Set(name, strings.Join(list, ","))
	default:
		r.query.Set(name, fmt.Sprint(value.Interface()))
	}
}

func (r *request) setBody(value reflect.Value) (err error) {
	if value.Kind() == reflect.Pointer && value.IsNil() {
		return nil
	}
	r.contentType = "application/json"
	r.body, err = json.Marshal(value.Interface())
	return err
}
