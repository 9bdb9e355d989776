// Package replaypage has what pages for browsers say about replays: the form with which one
// is planned, the command that does the same, and the state of a job in words.
package replaypage

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/replayer"
)

// Form is the form of a page that plans a replay. Its filter is the page's.
type Form struct {
	replays.Replay
	Canary int // messages to send first
}

// DefaultCanary is the number of messages that a page offers to send first.
const DefaultCanary = 10

// ReadForm reads the fields of a URL or a form.
func ReadForm(values url.Values, filter eventfilter.Filter) (Form, error) {
	f := Form{Canary: DefaultCanary}
	lines := func(name string) []string { return Lines(values[name]) }
	text := func(name string) string { return strings.TrimSpace(values.Get(name)) }
	f.Replay = replays.Replay{
		Choice: eventfilter.Choice{Filter: filter, IDs: lines("ids")}, Group: text("group"), Target: replays.Target{Kind: text("target")},
		Changes: replays.Changes{
			SetHeaders: lines("set_header"), RemoveHeaders: lines("remove_header"), ClearHeaders: text("clear_headers") != "", KeepHeaders: lines("keep_header"),
			SetProperties: lines("set_property"), RemoveProperties: lines("remove_property"), KeepReplyTo: text("keep_reply_to") != "",
		},
		Again: text("again") != "", UncheckedRoutes: text("unchecked_routes") != "", Reason: text("reason"),
	}
	switch replayer.Kind(f.Target.Kind) {
	case "":
		f.Target.Kind = string(replayer.ToOrigin)
	case replayer.ToQueue:
		f.Target.Queue = text("queue")
	case replayer.ToExchange:
		f.Target.Exchange = text("exchange")
		if key := text("routing_key"); key != "" {
			f.Target.Key = &key
		}
	}
	var err error
	for _, number := range []struct {
		name string
		set  func(text string) error
	}{
		{"limit", func(text string) error { f.Limit, err = strconv.Atoi(text); return err }},
		{"canary", func(text string) error { f.Canary, err = strconv.Atoi(text); return err }},
		{"rate", func(text string) error { f.Rate, err = rate(text); return err }},
	} {
		if given := text(number.name); given != "" && number.set(given) != nil {
			return f, fmt.Errorf("%s %q: expected a number", number.name, given)
		}
	}
	f.Ramp, err = readRamp(text("steps"), lines("stop_if"))
	return f, err
}

// readRamp reads the steps and limits of a replay; nil: it has none.
func readRamp(steps string, stopIf []string) (*replays.Ramp, error) {
	ramp := &replays.Ramp{StopIf: stopIf}
	for _, step := range strings.FieldsFunc(steps, func(r rune) bool { return strings.ContainsRune(" ,;%", r) }) {
		percent, err := strconv.ParseFloat(step, 64)
		if err != nil {
			return nil, fmt.Errorf("steps %q: expected percentages such as 1, 5, 20, 100", steps)
		}
		ramp.Percent = append(ramp.Percent, percent)
	}
	if len(ramp.Percent)+len(stopIf) == 0 {
		return nil, nil
	}
	if _, err := ramp.Replayer(); err != nil {
		return nil, err
	}
	return ramp, nil
}

// Steps are the percentages of the form, as text.
func (f Form) Steps() string {
	if f.Ramp == nil {
		return ""
	}
	steps := make([]string, len(f.Ramp.Percent))
	for i, percent := range f.Ramp.Percent {
		steps[i] = strconv.FormatFloat(percent, 'f', -1, 64)
	}
	return strings.Join(steps, ",")
}

// StopIf are the limits of the form.
func (f Form) StopIf() []string {
	if f.Ramp == nil {
		return nil
	}
	return f.Ramp.StopIf
}

// rate reads a number of messages a second.
func rate(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err == nil && (math.IsNaN(n) || math.IsInf(n, 0)) {
		err = strconv.ErrRange
	}
	return n, err
}

// Fields are the parameters of the form, without the filter and without defaults.
func (f Form) Fields() url.Values {
	values := url.Values{}
	set := func(name string, given bool, texts ...string) {
		if given {
			values[name] = texts
		}
	}
	flag := func(name string, given bool) { set(name, given, "yes") }
	lines := func(name string, texts []string) { set(name, len(texts) > 0, strings.Join(texts, "\n")) }
	set("ids", len(f.IDs) > 0, f.IDs...)
	set("group", f.Group != "", f.Group)
	set("target", true, f.Target.Kind)
	set("queue", f.Target.Queue != "", f.Target.Queue)
	set("exchange", f.Target.Exchange != "", f.Target.Exchange)
	set("routing_key", f.Key() != "", f.Key())
	c := f.Changes
	lines("set_header", c.SetHeaders)
	lines("remove_header", c.RemoveHeaders)
	flag("clear_headers", c.ClearHeaders)
	lines("keep_header", c.KeepHeaders)
	lines("set_property", c.SetProperties)
	lines("remove_property", c.RemoveProperties)
	flag("keep_reply_to", c.KeepReplyTo)
	flag("again", f.Again)
	flag("unchecked_routes", f.UncheckedRoutes)
	set("rate", f.Rate > 0, strconv.FormatFloat(f.Rate, 'f', -1, 64))
	set("limit", f.Limit > 0, strconv.Itoa(f.Limit))
	set("steps", f.Steps() != "", f.Steps())
	lines("stop_if", f.StopIf())
	set("reason", f.Reason != "", f.Reason)
	return values
}

// Key returns the routing key of the target; "": each message keeps its own.
func (f Form) Key() string {
	if f.Target.Key == nil {
		return ""
	}
	return *f.Target.Key
}

// HasOptions reports whether the form has values that its page keeps folded.
func (f Form) HasOptions() bool {
	f.Reason = ""
	for name := range f.Fields() {
		if !slices.Contains([]string{"ids", "group", "target", "queue", "exchange", "routing_key"}, name) {
			return true
		}
	}
	return false
}

// Lines returns the lines of some values, without empty ones.
func Lines(values []string) (lines []string) {
	for _, value := range values {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
	}
	return lines
}
