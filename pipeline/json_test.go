package pipeline

import (
	"bytes"
	"compress/gzip"
	"context"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/schemas"
)

// A compressed body is decoded, and text after the value is a fault.
func TestJSONBodies(t *testing.T) {
	packed := func(text string) schemas.Envelope {
		var body bytes.Buffer
		w := gzip.NewWriter(&body)
		_, _ = w.Write([]byte(text))
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return schemas.Envelope{Body: body.Bytes(), Properties: schemas.Properties{ContentEncoding: "gzip"}}
	}
	for name, test := range map[string]struct {
		e     schemas.Envelope
		fault string // "": it fits
	}{
		"gzip":       {packed(`[1,2]`), ""},
		"byte order": {schemas.Envelope{Body: []byte("\ufeff[1,2]")}, ""},
		"trailing":   {schemas.Envelope{Body: []byte(`[1,2] x`)}, "invalid character 'x'"},
		"empty":      {schemas.Envelope{}, "unexpected end"},
		"long":       {packed(strings.Repeat(" ", 4<<20) + `[1,2]`), "longer than 4 MiB"},
	} {
		var got []int
		route := Route{Handler: JSON(func(_ context.Context, values []int) ([]*message.Message, error) { got = values; return nil, nil })}
		_, err := route.Call(t.Context(), test.e)
		if test.fault == "" && (err != nil || len(got) != 2) || test.fault != "" && (err == nil || !strings.Contains(err.Error(), test.fault)) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
