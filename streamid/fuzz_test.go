package streamid_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/streamid"
)

// FuzzStreams: whatever others publish, a stream is found in bounded form or not at all. A
// body that is an object with the field has its value, as encoding/json reads it.
func FuzzStreams(f *testing.F) {
	f.Add([]byte(`{"id":"a","version":1}`), "order.1", "7")
	f.Add([]byte(`{"id":{"id":1},"version":-1}`), "", "\n")
	f.Add([]byte(`{"id":"\ud800","id":2`), "....", "\xff")
	f.Add([]byte(`[{"id":1e400,"version":18446744073709551616}]`), "a.b", strings.Repeat("9", 600))
	f.Add([]byte("{\"id\":\"\x00\"}"), "a", "")
	f.Add([]byte("\ufeff{\"id\":7}"), "a", "")
	f.Fuzz(func(t *testing.T, body []byte, key, header string) {
		e := schemas.Envelope{Exchange: "shop", RoutingKey: key, Headers: amqp.Table{"h": header}, Body: body}
		ofBody := rules(t, streamid.Rule{ID: "{body.json.id}", Version: "{body.json.version}"})(e)
		if want := fieldOf(t, body, "id"); ofBody.ID != "" && ofBody.ID != want {
			t.Errorf("found %q in %q, want %q", ofBody.ID, body, want)
		}
		for _, rule := range []streamid.Rule{
			{ID: "{headers.h}", Version: "{headers.h}"},
			{ID: "{routing_key.1}-{routing_key.-1}", Version: "{routing_key.2}"},
			{Key: key, ID: "{body:/id}{headers.h}", Version: "{body.json.version}"},
		} {
			found := wire.Decoder{Streams: rules(t, rule)}.Tapped(amqp.Delivery{
				Exchange: e.Exchange, RoutingKey: e.RoutingKey, Headers: e.Headers, Body: e.Body,
			}, time.Unix(1_777_777_777, 0), 1).Stream
			if len(found.ID) > 512 || found.Version < 0 || found.Version > 1<<53 || found.ID == "" && found.HasVersion {
				t.Errorf("%+v gives %+v", rule, found)
			}
		}
	})
}

// fieldOf returns a field of a JSON object as text, as encoding/json reads it; "" for a body
// that is none.
func fieldOf(t *testing.T, body []byte, name string) string {
	t.Helper()
	var object map[string]json.RawMessage
	if json.Unmarshal(bytes.TrimPrefix(body, []byte("\ufeff")), &object) != nil {
		return ""
	}
	var text string
	if json.Unmarshal(object[name], &text) == nil {
		return text
	}
	return string(object[name])
}
