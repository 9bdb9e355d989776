package console

import (
	"crypto/rand"
	"net/http"
	"net/url"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/approvals"
	"github.com/watershipmq/watership/internal/operation/problem"
)

const approvalsPath = "/approvals"

// approvalPages are the pages of actions that wait for a second person.
type approvalPages struct{ pages }

func (c approvalPages) register() {
	c.Handle("GET "+approvalsPath, c.list)
	c.Handle("POST "+approvalsPath+"/{id}", c.decide)
}

// approvalsView is the page of approvals.
type approvalsView struct {
	Approvals []approvals.Approval
	Key       string // of the next decision
	Done      string
	Problem   *problem.Problem
}

func (c approvalPages) list(r *http.Request) (frame.Response, error) {
	done, _ := c.DoneBefore(r)
	return c.page(r, approvalsView{Done: done.Get("done")})
}

func (c approvalPages) page(r *http.Request, v approvalsView) (frame.Response, error) {
	found, err := approvals.ListApprovals.Call(r.Context(), c.api, struct{}{})
	if err != nil {
		return nil, err
	}
	v.Approvals, v.Key = found.Body.Approvals, rand.Text()
	made := frame.Page{Title: "Approvals", Section: "/replays", Template: "approvals.html", Data: v}
	if v.Problem != nil {
		made.Status = v.Problem.Status
	}
	return made, nil
}

// decide approves or refuses an action.
func (c approvalPages) decide(r *http.Request) (frame.Response, error) {
	in := approvals.DecideInput{IdempotencyKey: frame.KeyOf(r), ID: r.PathValue("id")}
	in.Body.Decision, in.Body.Reason = r.PostForm.Get("decision"), r.PostForm.Get("reason")
	decided, err := approvals.DecideApproval.Call(r.Context(), c.api, in)
	if err != nil {
		return c.page(r, approvalsView{Problem: frame.ProblemOf(err)})
	}
	return c.Done(approvalsPath, url.Values{"done": {"The " + string(decided.Body.Action) + " of " + decided.Body.By + " is " + string(decided.Body.State) + "."}}), nil
}
