package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/idempotency"
)

// Do implements operation.Via: it sends the request of an operation, and reads its response.
func (c *Client) Do(ctx context.Context, op *operation.Operation, in, out any) error {
	r, err := newRequest(op, in)
	if err != nil {
		return err
	}
	var into any
	if body := reflect.ValueOf(out).Elem().FieldByName("Body"); body.IsValid() {
		into = body.Addr().Interface()
	}
	repeatable, is := in.(operation.Repeatable)
	isSafe := is && repeatable.RepeatKey() != ""
	for tries := 1; ; tries++ {
		err = c.reasoned(ctx, func() error { return c.do(ctx, op.Limit()+margin, r, into) })
		var lost *Error
		if !isSafe || tries == maxTries || ctx.Err() != nil || !errors.As(err, &lost) || !lost.IsLost() {
			return err
		}
		_ = backoff.Sleep(ctx, time.Second)
	}
}

// maxTries is how often a request is sent to a server that does not answer, if its caller has given it
// a key, with which the server acts once.
const maxTries = 3

// newRequest returns the request of an operation with the input to which in points.
func newRequest(op *operation.Operation, in any) (request, error) {
	r := request{method: op.Method, path: op.Path, query: url.Values{}, header: http.Header{}}
	err := r.add(reflect.ValueOf(in).Elem())
	return r, err
}

// add adds the values of an input, each where its tag says. The server knows the defaults of
// values that are zero.
func (r *request) add(input reflect.Value) error {
	for i := range input.NumField() {
		field, value := input.Type().Field(i), input.Field(i)
		query, isQuery := field.Tag.Lookup("query")
		path, isPath := field.Tag.Lookup("path")
		header, isHeader := field.Tag.Lookup("header")
		switch {
		case isPath:
			r.path = strings.ReplaceAll(r.path, "{"+path+"}", operation.Segment(value.String()))
		case isQuery && !value.IsZero():
			if err := r.setQuery(field, query, value); err != nil {
				return err
			}
		case isQuery:
		case header == idempotency.Header:
			r.header.Set(header, cmp.Or(value.String(), newKey()))
		case isHeader && !value.IsZero():
			r.header.Set(header, value.String())
		case isHeader:
		case field.Name == "RawBody":
			r.setContent(field.Tag.Get("contentType"), value.Bytes())
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
// its values. A number above the maximum of its parameter is lowered to it, so that a caller may
// ask for pages of any size.
func (r *request) setQuery(field reflect.StructField, tag string, value reflect.Value) error {
	name, isExploded := strings.CutSuffix(tag, ",explode")
	list, isList := value.Interface().([]string)
	maximum, err := strconv.Atoi(field.Tag.Get("maximum"))
	switch {
	case name == "query":
		r.query.Set(name, value.String())
		return checkLength("query", value.String())
	case name == "dsl":
		r.query.Set(name, value.String())
		return checkLength("--dsl", value.String())
	case err == nil && value.CanInt():
		r.query.Set(name, strconv.FormatInt(min(value.Int(), int64(maximum)), 10))
	case isList && isExploded:
		r.query[name] = list
	case isList:
		r.query.Set(name, strings.Join(list, ","))
	default:
		r.query.Set(name, fmt.Sprint(value.Interface()))
	}
	return nil
}

func (r *request) setBody(value reflect.Value) error {
	if value.Kind() == reflect.Pointer && value.IsNil() {
		return nil
	}
	if filter, is := value.Interface().(interface{ Text() string }); is { // of an eventfilter.Filter
		if err := checkLength("query", filter.Text()); err != nil {
			return err
		}
	}
	body, err := json.Marshal(value.Interface())
	r.setContent("application/json", body)
	return err
}

func (r *request) setContent(kind string, body []byte) {
	r.header.Set("Content-Type", kind)
	r.body = body
}
