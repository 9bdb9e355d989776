package console

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operation/eventjson"
	"github.com/watershipmq/watership/internal/render/amqpvalue"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// lifeStep is an event in the timeline of a message.
type lifeStep struct {
	schemas.Event
	Action                   schemas.Action // of a quarantined event: the action of the event that it replaces
	IsQuarantined, IsStrange bool           // in quarantine, or in the log and no event
	Since                    time.Duration  // since the event before
	HasSince                 bool
	Gap                      string         // class of a line that is the longer, the longer the time was
	Summary                  string         // first line of the error
	IsLong                   bool           // the error has more
	Of                       *schemas.Event // the event that was replayed, if it is in the timeline
	Trace                    string         // page of its trace; "": none
}

func lifeOf(documents []eventjson.Document) ([]lifeStep, error) {
	life := make([]lifeStep, len(documents))
	byID := map[string]*schemas.Event{}
	var before time.Time
	for i, document := range documents {
		e, err := schemas.ParseDocument(document)
		if err != nil {
			return nil, fmt.Errorf("reading an event of the message: %w", err)
		}
		s := lifeStep{Event: e, Action: e.RecordedAction(), IsQuarantined: e.Action == schemas.Quarantined}
		if s.IsQuarantined {
			_, known := e.Refused()
			s.IsStrange = !known
		}
		if gap := e.Time.Sub(before); !before.IsZero() && gap >= 0 {
			s.Since, s.HasSince, s.Gap = gap, true, gapClass(gap)
		}
		if before = e.Time; e.TimeSource == wire.TimeOfIngest { // it was published some time before
			before = time.Time{}
		}
		s.Summary, s.IsLong = firstLine(e.Failure.Message)
		life[i] = s
		byID[e.EventID], s.Of = &life[i].Event, byID[e.ReplayOf]
		life[i].Of = s.Of
	}
	return life, nil
}

// traceOf returns the page of the trace of an event; "" if it has none.
func (c messagePages) traceOf(e schemas.Event) string {
	id := e.TraceID()
	if id == "" {
		return ""
	}
	return strings.Replace(c.config.Trace, config.TraceField, id, 1)
}

// IsFailure reports whether the event has an error with details.
func (s lifeStep) IsFailure() bool {
	return s.Failure.Message != "" && s.Action != schemas.Discarded
}

// replacedBy begins the reason of a discard, before the fingerprint of a copy of the message.
const replacedBy = "replaced by the copy "

// discardReason is the reason of a discard in parts.
type discardReason struct{ Before, Copy, After string }

// Reason returns the reason of a discard. Copy is the fingerprint of the copy that replaced the
// message, if a form made one.
func (s lifeStep) Reason() discardReason {
	rest, is := strings.CutPrefix(s.Failure.Message, replacedBy)
	end := strings.IndexByte(rest+" ", ' ')
	if !is || !strings.HasPrefix(rest, "v1:") {
		return discardReason{Before: s.Failure.Message}
	}
	return discardReason{replacedBy, rest[:end], rest[end:]}
}

// gapClass has five steps, since a life has waits of milliseconds and of days.
func gapClass(gap time.Duration) string {
	for i, limit := range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		if gap < limit {
			return fmt.Sprint("gap", i)
		}
	}
	return "gap4"
}

const longestLine = 200 // characters

func firstLine(text string) (line string, isLong bool) {
	line, _, isLong = strings.Cut(strings.TrimSpace(text), "\n")
	if runes := []rune(line); len(runes) > longestLine {
		line, isLong = string(runes[:longestLine])+"…", true
	}
	return line, isLong
}

// selectedFailure returns the failure that the parameter error names, or the newest, with
// its stack trace; nil if the message has none.
func (c messagePages) selectedFailure(r *http.Request, life []lifeStep) *schemas.Event {
	id, wanted := "", r.URL.Query().Get("error")
	for _, s := range life {
		if s.IsFailure() && (id == "" || id != wanted) {
			id = s.EventID
		}
	}
	if id == "" {
		return nil
	}
	found, err := messages.GetEvent.Call(r.Context(), c.api, messages.EventInput{ID: id})
	if err != nil {
		return nil // the timeline has its error
	}
	e, err := schemas.ParseDocument(found.Body)
	if err != nil {
		return nil
	}
	return &e
}

// header is a header, or a value in one, for people to read.
type header struct {
	Name, Type, Text string
	Rest             string // the whole text, if Text is its beginning
	IsCut            bool   // the rest is a part of it, too
	Headers          []header
	LeftOut          int
}

// Count is the number of values, with those that are left out.
func (h header) Count() int { return len(h.Headers) + h.LeftOut }

// firstHeaders is the number of headers that are shown at once: most messages have fewer.
const firstHeaders = 20

// First are the headers that are shown at once, and More the others.
func (h header) First() []header { return h.Headers[:min(len(h.Headers), firstHeaders)] }

// More are the headers after the First.
func (h header) More() []header { return h.Headers[len(h.First()):] }

// Bounds of the headers that are shown. A value of 1 MiB or thousands of values are no help.
const (
	maxHeaders  = 600
	maxRest     = 64 << 10  // bytes of one value
	maxRests    = 256 << 10 // bytes of all
	headerDepth = 8
)

func headersOf(table amqp.Table) header {
	room := headerRoom{maxHeaders, maxRests}
	return room.table(table, headerDepth)
}

// headerRoom is the room that is left.
type headerRoom struct{ values, bytes int }

func (room *headerRoom) table(table amqp.Table, depth int) header {
	var list header
	for _, name := range slices.Sorted(maps.Keys(table)) {
		room.add(&list, name, table[name], depth)
	}
	return list
}

func (room *headerRoom) add(to *header, name string, value any, depth int) {
	if room.values--; room.values < 0 || depth == 0 {
		to.LeftOut++
		return
	}
	h := header{Name: wording.OneLine(name), Type: amqpvalue.Type(value)}
	switch v := value.(type) {
	case amqp.Table:
		inner := room.table(v, depth-1)
		h.Headers, h.LeftOut = inner.Headers, inner.LeftOut
	case []any:
		for i, element := range v {
			room.add(&h, fmt.Sprint(i), element, depth-1)
		}
	}
	text := amqpvalue.Text(value)
	line, _ := firstLine(text)
	if h.Text = wording.OneLine(line); len(h.Text) != len(text) {
		h.Rest = text[:min(len(text), maxRest, max(room.bytes, 0))]
		h.IsCut = len(h.Rest) < len(text)
		room.bytes -= len(h.Rest)
	}
	to.Headers = append(to.Headers, h)
}
