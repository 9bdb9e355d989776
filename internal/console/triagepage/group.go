// Package triagepage has the console's pages of groups of failures: a group with the decisions
// about it, selected groups that are resolved together, and groups by any fields.
package triagepage

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/console/view/chart"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// Pages makes the pages.
type Pages struct {
	Frame *frame.Frame
	API   operation.Via
}

// Register adds the pages to the frame.
func (p Pages) Register() {
	p.Frame.Handle("GET /failures/by", p.by)
	p.Frame.Handle("GET /failures/selected", p.selected)
	p.Frame.Handle("GET /failures/groups/{group}", p.group)
	p.Frame.Handle("POST /failures/groups/{group}", p.decide)
}

// Path returns the address of the page of a group.
func Path(id string) string { return "/failures/groups/" + url.PathEscape(id) }

// groupView is the page of a group.
type groupView struct {
	failures.FailureGroup
	Title              errorTitle
	Bars               []chart.SparkBar // of the unresolved failures over time
	Width, Most        int
	Step               time.Duration
	Until              time.Time // end of the bars
	Path               string
	Queued             string     // link to the failures of its queue
	Messages, Failures string     // links to its events, and to its unresolved failures
	Replay             string     // link
	refused            url.Values // the form that was refused
	Problem            *problem.Problem
	Done               *done
	Typed              bool // the operator must type the number of failures
	Why                whyView
	Shown              failureView
	History            historyView
	Key                string
}

// historyView is what operators did about the group.
type historyView struct {
	failures.GroupHistory
	Problem *problem.Problem
}

// Refused reports whether the form with a decision was refused.
func (v groupView) Refused(decision string) bool { return v.refused.Get("do") == decision }

// Given returns a text of the form with a decision, if it was refused.
func (v groupView) Given(decision, name string) string {
	if v.refused.Get("do") != decision {
		return ""
	}
	return v.refused.Get(name)
}

// done is the result of the form that led to the page.
type done struct {
	Decision          string
	Unchanged         bool // there was nothing to do
	Failures, Missing int  // of a resolution: that were discarded; events that the store does not have yet
}

func (p Pages) group(r *http.Request) (frame.Response, error) {
	page, err := p.show(r, nil, nil)
	if err == nil {
		return page, nil
	}
	return nil, frame.Unknown(err, "Look for it among the failures, with the muted groups. A group is gone when the store has no event of it any more.")
}

// show shows a group, and the problem of a form that was refused.
func (p Pages) show(r *http.Request, given url.Values, refused *problem.Problem) (frame.Response, error) {
	group := r.PathValue("group")
	v := groupView{refused: given, Problem: refused, Key: rand.Text(), Done: p.done(r)}
	var reading sync.WaitGroup // each reads the failures of the group
	reading.Go(func() { v.Shown = p.failure(r, group) })
	reading.Go(func() { v.History = p.history(r, group) })
	found, err := failures.GetFailureGroup.Call(r.Context(), p.API, failures.GroupInput{Group: group})
	reading.Wait()
	if err != nil {
		return nil, err
	}
	v.FailureGroup, v.Title = found.Body, newErrorTitle(found.Body.Group.Group)
	v.Bars, v.Most = chart.Sparkline(v.Histogram.Counts)
	v.Width, v.Step = 4*len(v.Histogram.Counts), time.Duration(v.Histogram.Step)*time.Second
	v.Until = v.Histogram.End()
	v.Queued = "/failures?" + url.Values{"q": {kql.FieldIs("queue", v.Queue).String()}}.Encode()
	query := url.Values{"q": {v.Query}, "since": {frame.AllTime}}
	v.Path, v.Typed = Path(v.ID), v.Count > frame.TypedAbove
	v.Messages, v.Failures = "/messages?"+query.Encode(), "/failures?view=list&"+query.Encode()
	query.Set("target", "failed_queue")
	v.Replay = "/replays/new?" + query.Encode()
	v.Why = p.why(r, v.ID)
	shown := frame.Page{Title: cmp.Or(v.Title.Text, "Failures without a text") + " · " + v.Queue, Section: "/failures", Template: "failures_group.html", Styles: []string{"failures.css"}, Scripts: []string{"late.js"}, Data: v}
	if refused != nil {
		shown.Status = refused.Status
	}
	return shown, nil
}

func (p Pages) history(r *http.Request, group string) historyView {
	found, err := failures.GetGroupHistory.Call(r.Context(), p.API, failures.GroupInput{Group: group})
	if err != nil {
		return historyView{Problem: frame.ProblemOf(err)}
	}
	return historyView{GroupHistory: found.Body}
}

func (p Pages) done(r *http.Request) *done {
	query, _ := p.Frame.DoneBefore(r)
	if query == nil {
		return nil
	}
	d := &done{Decision: query.Get("decision"), Unchanged: query.Get("unchanged") == "true"}
	d.Failures, _ = strconv.Atoi(query.Get("failures"))
	d.Missing, _ = strconv.Atoi(query.Get("missing"))
	return d
}

// decide carries out the form whose button was pressed.
func (p Pages) decide(r *http.Request) (frame.Response, error) {
	form, group := r.PostForm, r.PathValue("group")
	if form.Get("do") == string(failures.Resolved) {
		return p.resolve(r)
	}
	zone, _ := frame.ZoneOf(r)
	request, mistake := decisionOf(form, zone, time.Now())
	if mistake != nil {
		return p.show(r, form, mistake)
	}
	decided, err := failures.TriageFailureGroup.Call(r.Context(), p.API, failures.TriageInput{IdempotencyKey: frame.KeyOf(r), Group: group, Body: request})
	if err != nil {
		return p.show(r, form, frame.ProblemOf(err))
	}
	return p.Frame.Done(Path(group), url.Values{"decision": {form.Get("do")}, "unchanged": {strconv.FormatBool(decided.Body.Unchanged)}, "missing": {strconv.Itoa(decided.Body.Missing)}}), nil
}

// decisionOf reads the decision of a form.
func decisionOf(form url.Values, zone *time.Location, now time.Time) (failures.GroupDecision, *problem.Problem) {
	text := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	d := failures.GroupDecision{Decision: failures.Decision(form.Get("do")), Reason: text("reason")}
	switch d.Decision {
	case failures.Assigned:
		d.Assignee = text("assignee")
	case failures.Noted:
		d.Reason = strings.ReplaceAll(text("note"), "\r\n", "\n") // as it was typed: its length counts
	case failures.Muted:
		var mistake *problem.Problem
		if d.Until, mistake = muteEnd(text("hours"), text("until"), zone, now); mistake != nil {
			return d, mistake
		}
		if failures := text("failures"); failures != "" {
			n, err := strconv.Atoi(failures)
			if err != nil || n < 1 {
				return d, frame.Unprocessable("expected the number of failures after which the group is back", "Give a whole number.")
			}
			d.Count = n
		}
	}
	return d, nil
}

const maxHours = 24 * 366

// muteEnd reads the time at which a group is no longer muted: after some hours, or a time in a
// zone; zero: neither is given.
func muteEnd(hours, until string, zone *time.Location, now time.Time) (end time.Time, mistake *problem.Problem) {
	switch {
	case hours != "" && until != "":
		return end, frame.Unprocessable("expected hours or a time, not both", "Clear one of them.")
	case until != "":
		return frame.FutureTime(until, zone, now)
	case hours == "":
		return end, nil
	}
	n, err := strconv.ParseFloat(hours, 64)
	if err != nil || !(n > 0 && n <= maxHours) {
		return end, frame.Unprocessable("expected the hours until the group is back", fmt.Sprintf("Give a number up to %d.", maxHours))
	}
	return now.Add(time.Duration(n * float64(time.Hour))).Truncate(time.Second), nil
}

// resolve resolves the failures of the group that the operator was shown. Later ones bring it
// back.
func (p Pages) resolve(r *http.Request) (frame.Response, error) {
	form := r.PostForm
	request := failures.Resolve{Groups: []string{r.PathValue("group")}}
	confirmation := frame.Confirmation{Name: "a resolution", Unit: "failure", Reason: "Say why nothing more is to be done.", Events: true}
	shown, mistake := confirmation.Read(form, false)
	if mistake != nil {
		return p.show(r, form, mistake)
	}
	request.Bounds, request.UpTo = shown.Bounds, shown.UpTo
	resolved, err := failures.ResolveFailures.Call(r.Context(), p.API, failures.ResolveInput{IdempotencyKey: frame.KeyOf(r), Body: request})
	if err != nil {
		return p.show(r, form, frame.ProblemOf(err))
	}
	return p.Frame.Done(Path(r.PathValue("group")), url.Values{
		"decision": {form.Get("do")}, "failures": {strconv.Itoa(resolved.Body.Done)}, "missing": {strconv.Itoa(resolved.Body.Missing)},
	}), nil
}
