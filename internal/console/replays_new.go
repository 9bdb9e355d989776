package console

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/watershipmq/watership/internal/api"
	"github.com/watershipmq/watership/internal/problem"
	"github.com/watershipmq/watership/internal/wording"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// replayForm are the fields of the page on which a replay is planned.
type replayForm struct {
	api.Replay
	Filter filter
	Canary int // messages to send first
}

const defaultCanary = 10

// readReplayForm reads the fields of a URL or a form.
func readReplayForm(r *http.Request, values url.Values) (replayForm, *problem.Problem) {
	zone, _ := zoneOf(r)
	f := replayForm{Filter: readFilter(values, zone, allTime), Canary: defaultCanary}
	lines := func(name string) []string { return readLines(values[name]) }
	text := func(name string) string { return strings.TrimSpace(values.Get(name)) }
	f.Replay = api.Replay{
		Filter: f.Filter.body(), IDs: lines("ids"), Group: text("group"), Target: api.Target{Kind: text("target")},
		Changes: api.Changes{
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
		{"rate", func(text string) error { f.Rate, err = strconv.ParseFloat(text, 64); return err }},
	} {
		if given := text(number.name); given != "" && number.set(given) != nil {
			return f, unprocessable(fmt.Sprintf("%s %q: expected a number", number.name, given), "")
		}
	}
	return f, nil
}

// Fields are the parameters of the form, without those that have their defaults.
func (f replayForm) Fields() url.Values {
	values := f.Filter.URL()
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
	set("reason", f.Reason != "", f.Reason)
	return values
}

// Key returns the routing key of the target; "": each message keeps its own.
func (f replayForm) Key() string {
	if f.Target.Key == nil {
		return ""
	}
	return *f.Target.Key
}

// HasOptions reports whether the form has values that its page keeps folded.
func (f replayForm) HasOptions() bool {
	f.Reason = ""
	for name := range f.Fields() {
		if !slices.Contains([]string{"q", "since", "from", "to", "ids", "group", "target", "queue", "exchange", "routing_key"}, name) {
			return true
		}
	}
	return false
}

// Command returns the command that plans the same replay, and asks before it sends.
func (f replayForm) Command(total int) string {
	arguments := []string{"watership", "replay"}
	flag := func(name string, values ...string) {
		for _, value := range values {
			if value != "" {
				arguments = append(arguments, name, wording.Quoted(value))
			}
		}
	}
	yes := func(name string, given bool) {
		if given {
			arguments = append(arguments, name)
		}
	}
	if f.Query != "" {
		arguments = append(arguments, wording.Quoted(f.Query))
	}
	flag("--since", f.Since)
	flag("--from", f.From)
	flag("--to", f.To)
	flag("--group", f.Group)
	yes("--to-failed-queue", f.Target.Kind == string(replayer.ToFailedQueue))
	flag("--to-queue", f.Target.Queue)
	if f.Target.Kind == string(replayer.ToExchange) {
		arguments = append(arguments, "--to-exchange", wording.Quoted(f.Target.Exchange))
	}
	flag("--key", f.Key())
	c := f.Changes
	flag("--set-header", c.SetHeaders...)
	flag("--remove-header", c.RemoveHeaders...)
	yes("--clear-headers", c.ClearHeaders)
	flag("--keep-headers", c.KeepHeaders...)
	flag("--set-property", c.SetProperties...)
	flag("--remove-property", c.RemoveProperties...)
	yes("--drop-reply-to=false", c.KeepReplyTo)
	yes("--again", f.Again)
	yes("--unchecked-routes", f.UncheckedRoutes)
	if f.Rate > 0 {
		flag("--rate", strconv.FormatFloat(f.Rate, 'f', -1, 64))
	}
	if f.Limit > 0 {
		flag("--limit", strconv.Itoa(f.Limit))
	}
	flag("--reason", f.Reason)
	zone := ""
	if f.Zone != "" && regexp.MustCompile(`\d{4}-\d\d|/d`).MatchString(f.Query+f.From+f.To) {
		zone = "TZ=" + wording.Quoted(f.Zone) + " "
	}
	if len(f.IDs) == 0 {
		return zone + strings.Join(arguments, " ")
	}
	ids := make([]string, len(f.IDs))
	for i, id := range f.IDs {
		ids[i] = wording.Quoted(id)
	}
	flag("--ids", "-")
	flag("--expect", strconv.Itoa(total))
	return `printf '%s\n' ` + strings.Join(ids, " ") + " | " + zone + strings.Join(append(arguments, "--yes"), " ")
}

// planView is the page on which a replay is planned.
type planView struct {
	Form    replayForm
	Problem *problem.Problem
	Changed bool // the number of messages is another than that which was shown
	Planned bool
	api.Plan
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
func (c *Console) planReplay(r *http.Request) (response, error) {
	if err := needOperator(r, "a replay"); err != nil {
		return nil, err
	}
	form, mistake := readReplayForm(r, r.URL.Query())
	return c.showPlan(r, planView{Form: form, Problem: mistake})
}

// showPlan shows a form with its plan, and with the problem of a request that was refused.
func (c *Console) showPlan(r *http.Request, v planView) (response, error) {
	refused := v.Problem
	if f := v.Form; f.Query != "" || len(f.IDs) > 0 || f.Group != "" {
		if err := c.client.post(r.Context(), "/replays/plan", "", f.Replay, &v.Plan); err != nil {
			v.Problem = problemOf(err)
		} else if v.Planned = true; refused != nil && refused.Status == http.StatusConflict {
			v.Changed = r.PostForm.Get("expect") != strconv.Itoa(v.Total)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(v.Plan.LeftOut)) {
		v.LeftOut = append(v.LeftOut, leftOut{v.Plan.LeftOut[reason], namesOfForm(reason)})
	}
	for _, document := range v.Sample {
		event, err := schemas.ParseDocument(document)
		if err != nil {
			return nil, err
		}
		v.Events = append(v.Events, event)
	}
	v.Plan.Problem = namesOfForm(v.Plan.Problem)
	v.Command, v.Typed, v.Key = v.Form.Command(v.Total), v.Total > typedAbove, rand.Text()
	shown := page{Title: "New replay", Section: "/replays", Template: "replays_new.html", Data: v, Styles: []string{"failures.css"}}
	if v.Problem != nil {
		shown.Status = v.Problem.Status
	}
	return shown, nil
}

// namesOfForm replaces the names of options in the texts of a plan by those of the form.
func namesOfForm(text string) string {
	return strings.NewReplacer("--again sends", "“Again” sends", "--to-queue sends", "“Another queue” sends",
		"--to-failed-queue sends", "“Only the queue that failed” sends", "unchecked_routes", "“Unchecked routes”").Replace(text)
}

// RouteName returns the name of a destination.
func (planView) RouteName(r api.PlanRoute) string {
	return replayer.Route{Exchange: r.Exchange, RoutingKey: r.RoutingKey, Queue: r.Queue, Others: r.Others}.String()
}

// startReplay starts a replay after its plan: all of it, or its first messages.
func (c *Console) startReplay(r *http.Request) (response, error) {
	form, mistake := readReplayForm(r, r.PostForm)
	count, uncounted := shownCount(r.PostForm, "message")
	first := r.PostForm.Get("first") != ""
	switch {
	case mistake != nil:
	case uncounted != nil:
		mistake = uncounted
	case !first:
		mistake = checkTyped(r.PostForm, count, "message")
	case form.Canary < 1:
		mistake = unprocessable("a canary needs a number of messages", "")
	}
	if mistake != nil {
		return c.showPlan(r, planView{Form: form, Problem: mistake})
	}
	request := form.Replay
	if first {
		request.StopAfter = form.Canary
	}
	request.Query, request.Expect = shownBefore(r.PostForm, request.Query), &count
	var job api.Job
	if err := c.client.post(r.Context(), "/replays", r.PostForm.Get("key"), request, &job); err != nil {
		return c.showPlan(r, planView{Form: form, Problem: problemOf(err)})
	}
	return redirect("/replays/" + url.PathEscape(job.ID)), nil
}
