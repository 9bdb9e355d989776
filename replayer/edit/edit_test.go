package edit

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

func TestHeaderSyntax(t *testing.T) {
	for text, want := range map[string]any{
		"a=b": "b", "a=b=c": "b=c", "a=": "", "a:int=7": int64(7), "a:float=0.5": 0.5, "a:bool=true": true,
		"a:string=7": "7", "a:time=2026-05-04T03:02:01Z": time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC),
	} {
		if name, value, err := ParseHeader(text); err != nil || name != "a" || value != want {
			t.Errorf("%s: %s = %v (%v)", text, name, value, err)
		}
	}
	for _, text := range []string{"a", "=b", "a:int=x", "a:colour=red", ":int=1"} {
		if name, value, err := ParseHeader(text); err == nil {
			t.Errorf("%s was parsed as %s = %v", text, name, value)
		}
	}
	for _, changes := range []Changes{
		{Set: []string{"x-death=1"}},
		{Set: []string{"x-first-death-queue=a"}},
		{Set: []string{"watership-queue=a"}},
		{Remove: []string{"x-delivery-count"}},
		{RemoveProperties: []string{"message_id"}},
		{RemoveProperties: []string{"reply_to", "reply_to"}},
		{Remove: []string{""}},
		{Set: []string{"a=1", "a:int=2"}},
		{Set: []string{"a=1"}, Remove: []string{"a"}},
		{Remove: []string{"a", "a"}},
		{Keep: []string{"a"}},
		{Clear: true, Keep: []string{"a"}, Remove: []string{"a"}},
		{Clear: true, Keep: []string{"x-death"}},
		{SetProperties: []string{"message_id=a"}},
		{SetProperties: []string{"user_id=a"}},
		{SetProperties: []string{"type"}},
		{SetProperties: []string{"type="}},
		{SetProperties: []string{"type=" + strings.Repeat("t", 256)}},
		{SetProperties: []string{"priority=256"}},
		{SetProperties: []string{"expiration=1s"}},
		{SetProperties: []string{"timestamp=today"}},
		{SetProperties: []string{"type=a", "type=b"}},
		{SetProperties: []string{"reply_to=a"}, RemoveProperties: []string{"reply_to"}},
	} {
		if changes.Check() == nil {
			t.Errorf("%+v passed the check", changes)
		}
	}
	own := Changes{Set: []string{"x-delay:int=1"}, Remove: []string{"x-trace"}, RemoveProperties: []string{"reply_to", "correlation_id", "expiration", "priority"}}
	if err := own.Check(); err != nil {
		t.Errorf("changes of publisher headers: %v", err)
	}
}

// Cleared headers are all but CC and those to keep; a set one comes after.
func TestClearHeaders(t *testing.T) {
	e := schemas.Envelope{Headers: amqp.Table{"a": "1", "x-retry": int64(3), "traceparent": "t", "CC": []any{"other"}}}
	for want, changes := range map[string]Changes{
		"CC":               {Clear: true},
		"CC a":             {Clear: true, Set: []string{"a=2"}},
		"CC traceparent":   {Clear: true, Keep: []string{"traceparent", "none"}},
		"a traceparent":    {Remove: []string{"CC", "x-retry"}},
		"CC a traceparent": {Remove: []string{"x-retry"}},
	} {
		if err := changes.Check(); err != nil {
			t.Errorf("%+v: %v", changes, err)
		}
		got := strings.Join(slices.Sorted(maps.Keys(changes.Apply(e).Headers)), " ")
		if got != want {
			t.Errorf("%+v leaves %q, want %q", changes, got, want)
		}
	}
	if len(e.Headers) != 4 {
		t.Errorf("the original has the headers %v", e.Headers)
	}
}

// Every property that can be set can be removed.
func TestProperties(t *testing.T) {
	changes := Changes{SetProperties: []string{
		"app_id=shop", "content_encoding=gzip", "content_type=text/plain", "correlation_id=c", "reply_to=r", "type=t",
		"expiration=1500", "priority=7", "timestamp=2026-05-04T03:02:01Z",
	}}
	if err := changes.Check(); err != nil {
		t.Fatal(err)
	}
	want := schemas.Properties{
		AppID: "shop", ContentEncoding: "gzip", ContentType: "text/plain", CorrelationID: "c", ReplyTo: "r", Type: "t",
		Expiration: "1500", Priority: 7, Timestamp: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC), MessageID: "m",
	}
	set := changes.Apply(schemas.Envelope{Properties: schemas.Properties{MessageID: "m"}})
	if set.Properties != want {
		t.Errorf("set: %+v", set.Properties)
	}
	removal := Changes{RemoveProperties: Properties()}
	if err := removal.Check(); err != nil {
		t.Fatal(err)
	}
	if got := removal.Apply(set).Properties; got != (schemas.Properties{MessageID: "m"}) {
		t.Errorf("removed: %+v", got)
	}
}
