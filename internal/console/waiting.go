package console

import (
	"crypto/rand"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/waiting"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// waitingView is the page of messages that wait for their next attempt.
type waitingView struct {
	Filter  frame.Filter
	Groups  []waitingGroup
	Count   int
	Next    string // link to the next page; "": none exists
	All     string // link to decide about all that match
	Problem *problem.Problem
	Done    *waitingDone
}

// waitingGroup is a group with its links.
type waitingGroup struct {
	waiting.WaitingGroup
	Decide string
}

// waitingDone is the result of a decision.
type waitingDone struct {
	Action                 string
	Decided, Gone, Missing int
}

// waiting shows the groups of waiting messages.
func (c failurePages) waiting(r *http.Request) (frame.Response, error) {
	zone, _ := frame.ZoneOf(r)
	v := waitingView{Filter: frame.ReadFilter(r.URL.Query(), zone, frame.AllTime), Done: c.waitingDone(r)}
	shown := frame.Page{Title: "Waiting", Section: "/waiting", Template: "waiting.html", Styles: []string{"failures.css"}}
	page, err := waiting.GroupWaiting.Call(r.Context(), c.api, waiting.PageInput{QueryFilter: v.Filter.API(), Limit: groupsPerPage, Cursor: r.URL.Query().Get("cursor")})
	found := page.Body
	if err != nil {
		v.Problem = frame.ProblemOf(err)
		shown.Status = v.Problem.Status
	}
	v.Count, v.All = found.Messages, v.link(frame.Within(v.Filter.Query, "*"))
	for _, g := range found.Groups {
		v.Groups = append(v.Groups, waitingGroup{g, v.link(frame.Within(v.Filter.Query, g.Query))})
	}
	if found.Cursor != "" {
		v.Next = linkTo("/waiting", v.Filter.URL(), "cursor", found.Cursor)
	}
	shown.Data = v
	return shown, nil
}

func (v waitingView) link(query string) string {
	return linkTo("/waiting/decide", v.Filter.URL(), "q", query)
}

// waitingDone returns the result of the decision that led to the page; nil: none did.
func (c failurePages) waitingDone(r *http.Request) *waitingDone {
	query, _ := c.DoneBefore(r)
	decided, err := strconv.Atoi(query.Get("decided"))
	if err != nil {
		return nil
	}
	done := &waitingDone{Action: query.Get("action"), Decided: decided}
	done.Gone, _ = strconv.Atoi(query.Get("gone"))
	done.Missing, _ = strconv.Atoi(query.Get("missing"))
	return done
}

// decideView is the preview of a decision.
type decideView struct {
	Filter  frame.Filter
	Action  string
	Minutes string // until the next attempt, if it is postponed
	Reason  string
	Found   waiting.WaitingDecided
	Queues  []string
	Problem *problem.Problem
	Typed   bool // the operator must type the number
	Key     string
}

// decidePreview shows about how many messages a decision is. Nothing is changed.
func (c failurePages) decidePreview(r *http.Request) (frame.Response, error) {
	if err := needOperator(r, "a decision about waiting messages"); err != nil {
		return nil, err
	}
	v := readDecision(r, r.URL.Query())
	if v.Filter.Query == "" {
		return nil, problem.BadRequest("no message is selected", "Go back to the waiting messages and select some.")
	}
	return c.showDecision(r, v, nil)
}

func readDecision(r *http.Request, values url.Values) decideView {
	zone, _ := frame.ZoneOf(r)
	return decideView{
		Filter: frame.ReadFilter(values, zone, frame.AllTime), Action: values.Get("action"), Minutes: strings.TrimSpace(values.Get("minutes")),
		Reason: strings.TrimSpace(values.Get("reason")), Key: rand.Text(),
	}
}

// Back returns the address of the waiting messages.
func (v decideView) Back() string { return "/waiting" }

// showDecision shows the preview, and the problem of a decision that was refused.
func (c failurePages) showDecision(r *http.Request, v decideView, refused *problem.Problem) (frame.Response, error) {
	shown := frame.Page{Title: "Waiting messages", Section: "/waiting", Template: "waiting_decide.html", Styles: []string{"failures.css"}}
	preview := waiting.WaitingDecision{Choice: eventfilter.Choice{Filter: v.Filter.API().Filter}, Action: waiting.Now, Bounds: operation.Bounds{DryRun: true}}
	found, err := waiting.DecideWaiting.Call(r.Context(), c.api, waiting.DecideInput{Body: preview})
	if v.Found = found.Body; err != nil {
		v.Problem = frame.ProblemOf(err)
		shown.Status = v.Problem.Status
	} else if refused != nil {
		v.Problem, shown.Status = refused, refused.Status
	}
	v.Queues, v.Typed = slices.Sorted(maps.Keys(v.Found.Queues)), v.Found.Matched > frame.TypedAbove
	shown.Data = v
	return shown, nil
}

// decide decides about waiting messages after their preview.
func (c failurePages) decide(r *http.Request) (frame.Response, error) {
	v := readDecision(r, r.PostForm)
	request := waiting.WaitingDecision{Choice: eventfilter.Choice{Filter: v.Filter.API().Filter}, Action: waiting.Action(v.Action)}
	var mistake *problem.Problem
	request.Bounds, request.UpTo, mistake = frame.Shown(r.PostForm, "message", "a decision", "Say why: others see it at the messages.")
	if mistake == nil && request.Action == waiting.Postpone {
		minutes, err := strconv.ParseFloat(v.Minutes, 64)
		if err != nil || minutes <= 0 || minutes > waiting.MaxPostponement.Minutes() {
			mistake = frame.Unprocessable("expected the minutes until the next attempt", "Give a number up to 43200, which is 30 days.")
		} else {
			request.NotBefore = time.Now().Add(time.Duration(minutes * float64(time.Minute)))
		}
	}
	if mistake != nil {
		return c.showDecision(r, v, mistake)
	}
	decided, err := waiting.DecideWaiting.Call(r.Context(), c.api, waiting.DecideInput{IdempotencyKey: frame.KeyOf(r), Body: request})
	if err != nil {
		return c.showDecision(r, v, frame.ProblemOf(err))
	}
	done := decided.Body
	return c.Done(v.Back(), url.Values{
		"action": {v.Action}, "decided": {strconv.Itoa(done.Done)}, "gone": {strconv.Itoa(done.Gone)}, "missing": {strconv.Itoa(done.Missing)},
	}), nil
}
