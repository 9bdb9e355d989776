package edit

import (
	"testing"
	"time"
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
