package messages

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

// newStream returns a System with published events of the stream order-42, one for each version, a minute apart, and
// the time of the first.
func newStream(t *testing.T, versions ...int64) (*system.System, time.Time) {
	t.Helper()
	sys, _ := systemtest.Embedded(t)
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	for n, version := range versions {
		e := schemas.Event{Action: schemas.Published, Envelope: schemas.Envelope{Exchange: "shop", Properties: schemas.Properties{MessageID: fmt.Sprint("m-", n)}}}
		e.Fingerprint, e.Time = e.Envelope.Fingerprint(), begin.Add(time.Duration(n)*time.Minute)
		e.Stream = schemas.MessageStream{ID: "order-42", Version: version, HasVersion: true}
		systemtest.Record(t, sys, e)
	}
	return sys, begin
}

// streamed returns a page of the stream, and its messages as a line.
func streamed(t *testing.T, sys *system.System, in StreamInput) (StreamPage, string) {
	t.Helper()
	in.ID = "order-42"
	if in.Limit == 0 {
		in.Limit = 100
	}
	out, err := operations{System: sys}.getStream(operator(t), &in)
	must(t, err)
	var ids []string
	for _, m := range out.Body.Messages {
		ids = append(ids, m.MessageID)
	}
	return out.Body, strings.Join(ids, " ")
}

func TestAStreamIsOrderedByVersion(t *testing.T) {
	sys, _ := newStream(t, 0, 2, 1, 4, 4)
	page, got := streamed(t, sys, StreamInput{})
	if got != "m-0 m-2 m-1 m-3 m-4" || page.Total != 5 || len(page.Gaps) != 1 || page.Gaps[0].From != 3 || len(page.Doubles) != 1 || page.Doubles[0].Version != 4 {
		t.Errorf("%s, %+v", got, page)
	}
}

func TestAStreamUpToAVersion(t *testing.T) {
	sys, _ := newStream(t, 0, 2, 1, 4)
	if page, got := streamed(t, sys, StreamInput{UpToVersion: "1"}); got != "m-0 m-2" || page.Total != 2 || len(page.Gaps) != 0 {
		t.Errorf("%s, %+v", got, page)
	}
}

// The part before a time may have gaps that are closed later.
func TestAStreamUpToATime(t *testing.T) {
	sys, begin := newStream(t, 0, 2, 1)
	to := begin.Add(2 * time.Minute).Format(time.RFC3339)
	if page, got := streamed(t, sys, StreamInput{To: to}); got != "m-0 m-1" || len(page.Gaps) != 1 || page.Gaps[0].From != 1 {
		t.Errorf("%s, %+v", got, page)
	}
}

func TestPagesOfAStream(t *testing.T) {
	sys, _ := newStream(t, 0, 1, 2, 3, 4)
	var pages []string
	for in := (StreamInput{Limit: 2}); len(pages) < 5; {
		page, got := streamed(t, sys, in)
		pages = append(pages, got)
		if in.Cursor = page.Cursor; in.Cursor == "" {
			break
		}
	}
	if got := strings.Join(pages, ", "); got != "m-0 m-1, m-2 m-3, m-4" {
		t.Errorf("%s", got)
	}
}

func TestAStreamOfWhatCannotBeRead(t *testing.T) {
	sys, _ := newStream(t, 0)
	for want, in := range map[string]StreamInput{
		"to \"noon\": expected a time": {To: "noon"},
		"unknown time zone Nowhere":    {To: "2026-05-04", Zone: "Nowhere"},
		"the cursor cannot be read":    {Cursor: "x"},
	} {
		in.ID, in.Limit = "order-42", 1
		if _, err := (operations{System: sys}).getStream(operator(t), &in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", in, err, want)
		}
	}
}
