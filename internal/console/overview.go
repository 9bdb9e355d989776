package console

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/console/view/statuspage"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operate/alerts"
	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operate/waiting"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/schemas"
)

// overview is the data of its template.
type overview struct {
	Filter   frame.Filter
	Wait     string // link to the page with all of its parts
	Alerts   *frame.Part[statuspage.Alerts]
	Events   *frame.Part[statuspage.Histogram]
	Failures *frame.Part[statuspage.OpenFailures]
	Waiting  *frame.Part[waiting.WaitingGroupPage]
	Rates    *frame.Part[statuspage.Rates]
	Server   *frame.Part[statuspage.Server]
	Routes   *frame.Part[statuspage.Routes]
	Jobs     *frame.Part[[]replays.Job]        // that run
	Doctor   *frame.Part[statuspage.Diagnosis] // nil: the caller may not see it
}

const (
	overviewRefresh = 10 * time.Second
	refreshFactor   = 20  // a page that takes a second is read again after 20 s
	oldFindings     = 300 // seconds for which findings of doctor are shown without running it again
	recentJobs      = 100
	openGroups      = 1000
	ratedQueues     = 1000
)

// showOverview shows the state of the system at a glance. The script reads again what takes
// longer, so that the page is there at once.
func (c systemPages) showOverview(r *http.Request) (frame.Response, error) {
	began := time.Now()
	zone, _ := frame.ZoneOf(r)
	f := frame.ReadFilter(r.URL.Query(), zone, "24h")
	p := frame.NewParts(r)
	o := overview{Filter: f, Wait: frame.WaitLink(r), Server: frame.Ask(p, c.server), Routes: frame.Ask(p, c.routes), Jobs: frame.Ask(p, c.runningJobs), Failures: frame.Ask(p, c.openFailures), Waiting: frame.Ask(p, c.countWaiting)}
	o.Alerts = frame.Ask(p, func(ctx context.Context) (statuspage.Alerts, error) {
		found, err := c.alerts(ctx)
		return statuspage.NewAlerts(found.Alerts), err
	})
	o.Rates = frame.Ask(p, func(ctx context.Context) (statuspage.Rates, error) { return c.rates(ctx, f) })
	o.Events = frame.Ask(p, func(ctx context.Context) (statuspage.Histogram, error) { return c.eventsOverTime(ctx, f) })
	if !access.FromContext(r.Context()).Limited() {
		o.Doctor = frame.Ask(p, c.findings(oldFindings))
	}
	p.Wait()
	made := systemPage("Overview", "/", "overview.html", o)
	made.Refresh = max(overviewRefresh, refreshFactor*time.Since(began).Round(time.Second))
	made.HasBadge, made.Badge = true, o.Failures.Value.Total
	if e := o.Events.Problem; e != nil && e.Status == http.StatusBadRequest { // the frame.Filter is wrong
		made.Status, made.Refresh, made.Data = e.Status, 0, overview{Filter: f, Events: o.Events}
	}
	return made, nil
}

// systemPage is a page about the system as a whole.
func systemPage(title, section, template string, data any) frame.Page {
	return frame.Page{Title: title, Section: section, Template: template, Data: data, Styles: []string{"system.css"}, Scripts: []string{"late.js"}}
}

func (c systemPages) eventsOverTime(ctx context.Context, f frame.Filter) (statuspage.Histogram, error) {
	counts, err := messages.CountOverTime.Call(ctx, c.api, messages.HistogramInput{QueryFilter: f.API(), By: "action", Steps: statuspage.MaxSteps})
	return statuspage.NewHistogram(counts.Body, f.URL()), err
}

func (c systemPages) alerts(ctx context.Context) (alerts.Alerts, error) {
	found, err := alerts.ListAlerts.Call(ctx, c.api, struct{}{})
	return found.Body, err
}

func (c systemPages) openFailures(ctx context.Context) (statuspage.OpenFailures, error) {
	groups, err := failures.GroupFailures.Call(ctx, c.api, failures.GroupsInput{Limit: openGroups, Sort: "last", Muted: true})
	return statuspage.NewOpenFailures(groups.Body), err
}

// countWaiting returns how many messages wait for their next attempt, and since when.
func (c systemPages) countWaiting(ctx context.Context) (waiting.WaitingGroupPage, error) {
	found, err := waiting.GroupWaiting.Call(ctx, c.api, waiting.PageInput{Limit: 1})
	return found.Body, err
}

// rates compares the queues in a period with the same period before it. All time has none.
func (c systemPages) rates(ctx context.Context, f frame.Filter) (statuspage.Rates, error) {
	now, err := c.countByQueue(ctx, f)
	if err != nil {
		return statuspage.Rates{}, err
	}
	selected, err := f.Selected(time.Now())
	if err != nil || selected.Begin.IsZero() {
		return statuspage.NewRates(now, nil), err
	}
	former := f
	former.Since, former.To = "", selected.Begin.Format(time.RFC3339)
	former.From = selected.Begin.Add(-selected.End.Sub(selected.Begin)).Format(time.RFC3339)
	before, err := c.countByQueue(ctx, former)
	return statuspage.NewRates(now, &before), err
}

// countByQueue counts the messages of a period that each queue has handled, and given up.
func (c systemPages) countByQueue(ctx context.Context, f frame.Filter) (counts statuspage.Counts, err error) {
	for action, of := range map[schemas.Action]*messages.Values{schemas.Handled: &counts.Handled, schemas.Poisoned: &counts.Failed} {
		in := messages.ValuesInput{QueryFilter: f.API(), Field: "watership.queue", Limit: ratedQueues}
		in.Query = frame.Within(f.Query, kql.FieldIs("event.action", string(action)).String())
		found, err := messages.CountValues.Call(ctx, c.api, in)
		if err != nil {
			return counts, err
		}
		*of = found.Body
	}
	return counts, nil
}

func (c systemPages) server(ctx context.Context) (statuspage.Server, error) {
	status, err := httpapi.GetStatus.Call(ctx, c.api, struct{}{})
	return statuspage.NewServer(status.Body), err
}

// runningJobs returns the replays that run, of the newest ones.
func (c systemPages) runningJobs(ctx context.Context) ([]replays.Job, error) {
	page, err := replays.ListReplays.Call(ctx, c.api, replays.JobsInput{Limit: recentJobs})
	return slices.DeleteFunc(page.Body.Jobs, func(job replays.Job) bool { return !job.Running }), err
}

// findings asks for findings of doctor that are not older than some seconds.
func (c systemPages) findings(maxAge float64) func(ctx context.Context) (statuspage.Diagnosis, error) {
	return func(ctx context.Context) (statuspage.Diagnosis, error) {
		found, err := doctor.RunDoctor.Call(ctx, c.api, doctor.DoctorInput{MaxAge: maxAge})
		return statuspage.NewDiagnosis(found.Body), err
	}
}

const freshFindings = 60 // seconds

// showDoctor shows all findings of doctor with their remedies.
func (c systemPages) showDoctor(r *http.Request) (frame.Response, error) {
	maxAge := float64(freshFindings)
	if r.URL.Query().Has("again") {
		maxAge = 0
	}
	p := frame.NewParts(r)
	found := frame.Ask(p, c.findings(maxAge))
	p.Wait()
	made := systemPage("Doctor", "/doctor", "doctor.html", map[string]any{"Wait": frame.WaitLink(r), "Doctor": found})
	if found.Problem != nil {
		made.Status = found.Problem.Status
	}
	return made, nil
}
