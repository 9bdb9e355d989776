package console

import (
	"crypto/rand"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/console/view/replaypage"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// planView is the page on which a replay is planned.
type planView struct {
	Form    replaypage.Form
	Filter  frame.Filter
	Problem *problem.Problem
	Changed bool // the number of messages is another than that which was shown
	Planned bool
	replays.Plan
	LeftOut []leftOut
	Events  []schemas.Event // the sample
	Command string
	Typed   bool // the operator must type the number
	Key     string
}

// leftOut is the number of events that a plan leaves out for a reason.
type leftOut struct {
	Count  int
	Reason string
}

// planReplay shows the plan of a replay. Nothing is sent.
func (c replayPages) planReplay(r *http.Request) (frame.Response, error) {
	if err := frame.NeedOperator(r, "a replay"); err != nil {
		return nil, err
	}
	return c.showPlan(r, readPlanForm(r, r.URL.Query()))
}

// readPlanForm reads the fields of the page. A mistake in them is the problem of the view.
func readPlanForm(r *http.Request, values url.Values) planView {
	zone, _ := frame.ZoneOf(r)
	v := planView{Filter: frame.ReadFilter(values, zone, frame.AllTime)}
	var err error
	if v.Form, err = replaypage.ReadForm(values, v.Filter.API().Filter); err != nil {
		v.Problem = frame.Unprocessable(err.Error(), "")
	}
	return v
}

// Fields are the parameters of the form.
func (v planView) Fields() url.Values {
	values := v.Form.Fields()
	maps.Copy(values, v.Filter.URL())
	return values
}

// showPlan shows a form with its plan, and with the problem of a request that was refused.
func (c replayPages) showPlan(r *http.Request, v planView) (frame.Response, error) {
	refused := v.Problem
	if f := v.Form; f.Query != "" || len(f.IDs) > 0 || f.Group != "" {
		planned, err := replays.PlanReplay.Call(r.Context(), c.api, replays.PlanInput{Body: f.Replay})
		if v.Plan = planned.Body; err != nil {
			v.Problem = frame.ProblemOf(err)
		} else if v.Planned = true; refused != nil {
			v.Changed = refused.Code == code.ExpectMismatch
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(v.Plan.LeftOut)) {
		v.LeftOut = append(v.LeftOut, leftOut{v.Plan.LeftOut[reason], replaypage.LeftOutText(reason)})
	}
	for _, document := range v.Sample {
		event, err := schemas.ParseDocument(document)
		if err != nil {
			return nil, err
		}
		v.Events = append(v.Events, event)
	}
	if remedy := v.refusal().Remedy("“Unchecked routes”"); remedy != "" {
		v.Plan.Problem += ": " + remedy
	}
	v.Command, v.Typed, v.Key = v.Form.Command(v.Matched), v.Matched > frame.TypedAbove, rand.Text()
	shown := frame.Page{Title: "New replay", Section: "/replays", Template: "replays_new.html", Data: v, Styles: []string{"failures.css"}}
	if v.Problem != nil {
		shown.Status = v.Problem.Status
	}
	return shown, nil
}

// refusal returns why the replay would be refused.
func (v planView) refusal() *replays.PlanError {
	refused := replays.PlanError{Code: v.ProblemCode, Matched: v.Matched}
	for _, route := range v.Routes {
		refused.Count += route.Unroutable
	}
	return &refused
}

// RouteName returns the name of a destination.
func (planView) RouteName(r replays.PlanRoute) string {
	return replayer.Route{Exchange: r.Exchange, RoutingKey: r.RoutingKey, Queue: r.Queue, Others: r.Others}.String()
}

// startReplay starts a replay after its plan: all of it, or its first messages.
func (c replayPages) startReplay(r *http.Request) (frame.Response, error) {
	v := readPlanForm(r, r.PostForm)
	count, uncounted := frame.ShownCount(r.PostForm, "message")
	first := r.PostForm.Get("first") != ""
	switch {
	case v.Problem != nil:
	case uncounted != nil:
		v.Problem = uncounted
	case !first:
		v.Problem = frame.CheckTyped(r.PostForm, count, "message")
	case v.Form.Canary < 1:
		v.Problem = frame.Unprocessable("a canary needs a number of messages", "")
	}
	if v.Problem != nil {
		return c.showPlan(r, v)
	}
	request := v.Form.Replay
	if first {
		request.StopAfter = v.Form.Canary
	}
	request.Expect = &count
	request.UpTo, _ = strconv.ParseInt(r.PostForm.Get("up_to"), 10, 64) // none: all that are stored
	job, err := replays.StartReplay.Call(r.Context(), c.api, replays.StartInput{IdempotencyKey: frame.KeyOf(r), Body: request})
	if err != nil {
		v.Problem = frame.ProblemOf(err)
		return c.showPlan(r, v)
	}
	return frame.Redirect("/replays/" + url.PathEscape(job.Body.ID)), nil
}
