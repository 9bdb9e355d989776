package console

import (
	"html/template"
	"net/http"
	"strconv"
	"time"

	"github.com/watershipmq/watership/internal/console/actionpage"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/waiting"
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
	Done    template.HTML // the report of an action
}

// waitingGroup is a group with its links.
type waitingGroup struct {
	waiting.WaitingGroup
	Decide string
}

// waiting shows the groups of waiting messages.
func (c failurePages) waiting(r *http.Request) (frame.Response, error) {
	zone, _ := frame.ZoneOf(r)
	v := waitingView{Filter: frame.ReadFilter(r.URL.Query(), zone, frame.AllTime), Done: actionpage.Before(c.Frame, r)}
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

// decision is the action on waiting messages. A preview needs no decision, and the form has the minutes
// until the next attempt.
func (p pages) decision() actionpage.Action {
	a := actionpage.With(p.api, waiting.DecideWaiting, func(s actionpage.Selection, in *waiting.DecideInput) error {
		if s.DryRun {
			in.Body.Action = waiting.Now
		}
		if in.Body.Action != waiting.Postpone {
			return nil
		}
		minutes, err := strconv.ParseFloat(s.Given("minutes"), 64)
		if err != nil || !(minutes > 0 && minutes <= waiting.MaxPostponement.Minutes()) { // NaN is neither
			return frame.Unprocessable("expected the minutes until the next attempt", "Give a number up to 43200, which is 30 days.")
		}
		in.Body.NotBefore = time.Now().Add(time.Duration(minutes * float64(time.Minute)))
		return nil
	})
	a.BackToAll = true // the filter is of those that do not wait any more
	return a
}
