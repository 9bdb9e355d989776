package console

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/watershipmq/watership/internal/console/actionpage"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/console/view/replaypage"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// planForm has the fields of the page on which a replay is planned.
type planForm struct {
	replaypage.Form
	Filter frame.Filter
	First  bool // its first messages alone are sent
}

// planView is the page on which a replay is planned.
type planView struct {
	actionpage.Shown[planForm, replays.Plan]
	LeftOut []leftOut
	Events  []schemas.Event // the sample
	Command string
}

// leftOut is the number of events that a plan leaves out for a reason.
type leftOut struct {
	Count  int
	Reason string
}

// newReplay is the action that plans a replay and starts it: all of it, or its first messages.
func (c replayPages) newReplay() actionpage.Flow[planForm, replays.Plan] {
	return actionpage.Flow[planForm, replays.Plan]{
		Path: "/replays/new", Role: access.Operator, Confirmation: frame.Confirmation{Name: "a replay", Unit: "message"},
		Read: readPlanForm, Preview: c.planReplay, OnFirst: isCanary, Act: c.startReplay, Page: planPage,
	}
}

// readPlanForm reads the fields of the page.
func readPlanForm(r *http.Request, values url.Values) (f planForm, isSelected bool, err error) {
	zone, _ := frame.ZoneOf(r)
	f.Filter, f.First = frame.ReadFilter(values, zone, frame.AllTime), isCanary(values)
	if f.Form, err = replaypage.ReadForm(values, f.Filter.API().Filter); err != nil {
		err = frame.Unprocessable(err.Error(), "")
	}
	return f, f.Query != "" || len(f.IDs) > 0 || f.Group != "", err
}

// Fields are the parameters of the form.
func (f planForm) Fields() url.Values {
	values := f.Form.Fields()
	maps.Copy(values, f.Filter.URL())
	return values
}

func (c replayPages) planReplay(ctx context.Context, f planForm) (replays.Plan, operation.Found, error) {
	planned, err := replays.PlanReplay.Call(ctx, c.api, replays.PlanInput{Body: f.Replay})
	return planned.Body, planned.Body.Found, err
}

func planPage(_ context.Context, shown actionpage.Shown[planForm, replays.Plan]) (frame.Page, error) {
	v := planView{Shown: shown}
	for _, reason := range slices.Sorted(maps.Keys(v.Found.LeftOut)) {
		v.LeftOut = append(v.LeftOut, leftOut{v.Found.LeftOut[reason], replaypage.LeftOutText(reason)})
	}
	for _, document := range v.Found.Sample {
		event, err := schemas.ParseDocument(document)
		if err != nil {
			return frame.Page{}, err
		}
		v.Events = append(v.Events, event)
	}
	if remedy := v.refusal().Remedy("“Unchecked routes”"); remedy != "" {
		v.Found.Problem += ": " + remedy
	}
	v.Command = v.Selected.Command(v.Matched)
	return frame.Page{Title: "New replay", Section: "/replays", Template: "replays_new.html", Data: v, Styles: []string{"failures.css"}}, nil
}

// refusal returns why the replay would be refused.
func (v planView) refusal() *replays.PlanError {
	refused := replays.PlanError{Code: v.Found.ProblemCode, Matched: v.Found.Matched}
	for _, route := range v.Found.Routes {
		refused.Count += route.Unroutable
	}
	return &refused
}

// RouteName returns the name of a destination.
func (planView) RouteName(r replays.PlanRoute) string {
	return replayer.Route{Exchange: r.Exchange, RoutingKey: r.RoutingKey, Queue: r.Queue, Others: r.Others}.String()
}

// isCanary reports whether a form sends the first messages alone.
func isCanary(form url.Values) bool { return form.Get("first") != "" }

func (c replayPages) startReplay(ctx context.Context, key operation.IdempotencyKey, f planForm, shown frame.Confirmed) (frame.Response, error) {
	request := f.Replay
	request.Expect, request.UpTo = shown.Expect, shown.UpTo
	if f.First {
		if request.StopAfter = f.Canary; f.Canary < 1 {
			return nil, frame.Unprocessable("a canary needs a number of messages", "")
		}
	}
	job, err := replays.StartReplay.Call(ctx, c.api, replays.StartInput{IdempotencyKey: key, Body: request})
	return frame.Redirect("/replays/" + url.PathEscape(job.Body.ID)), err
}
