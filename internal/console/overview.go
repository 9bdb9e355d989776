package console

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/access"
	"github.com/watershipmq/watership/internal/api"
	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/doctor"
)

// overview is the data of its template.
type overview struct {
	Filter   frame.Filter
	Wait     string // link to the page with all of its parts
	Events   *frame.Part[histogram]
	Failures *frame.Part[openFailures]
	Status   *frame.Part[serverStatus]
	Routes   *frame.Part[routeList]
	Jobs     *frame.Part[[]api.Job] // that run
	Doctor   *frame.Part[diagnosis] // nil: the caller may not see it
}

const (
	overviewRefresh = 10 * time.Second
	refreshFactor   = 20  // a page that takes a second is read again after 20 s
	doctorAge       = 300 // seconds that findings of doctor are shown without running it again
	maxShownQueues  = 12
	maxShownRoutes  = 12
	recentJobs      = 100
)

// showOverview shows the state of the system at a glance. What takes longer is left to the
// script, so that the page is there at once.
func (c *Console) showOverview(r *http.Request) (frame.Response, error) {
	began := time.Now()
	zone, _ := frame.ZoneOf(r)
	f := frame.ReadFilter(r.URL.Query(), zone, "24h")
	p := frame.NewParts(r)
	o := overview{Filter: f, Wait: waitLink(r), Status: frame.Ask(p, c.status), Routes: frame.Ask(p, c.routeStates), Jobs: frame.Ask(p, c.runningJobs), Failures: frame.Ask(p, c.openFailures)}
	o.Events = frame.Ask(p, func(ctx context.Context, to *histogram) error { return c.eventsOverTime(ctx, f, to) })
	if !access.FromContext(r.Context()).Limited() {
		o.Doctor = frame.Ask(p, func(ctx context.Context, to *diagnosis) error { return c.diagnose(ctx, doctorAge, to) })
	}
	p.Wait()
	if e := o.Events.Problem; e != nil && e.Status == http.StatusBadRequest {
		o.Events.Problem = nil
		return frame.Page{Title: "Overview", Section: "/", Template: "overview.html", Status: e.Status, Styles: overviewStyles(), Data: overview{Filter: f, Events: &frame.Part[histogram]{Problem: e}}}, nil
	}
	return frame.Page{
		Title: "Overview", Section: "/", Template: "overview.html", Data: o, Styles: overviewStyles(), Scripts: []string{"late.js"},
		Refresh: max(overviewRefresh, refreshFactor*time.Since(began).Round(time.Second)),
	}, nil
}

func overviewStyles() []string { return []string{"overview.css"} }

// waitLink is a link to the same page that waits for all of its parts.
func waitLink(r *http.Request) string {
	query := r.URL.Query()
	query.Set(frame.WaitParameter, "1")
	return r.URL.Path + "?" + query.Encode()
}

func (c *Console) eventsOverTime(ctx context.Context, f frame.Filter, to *histogram) error {
	query := f.API()
	query.Set("by", "action")
	query.Set("steps", strconv.Itoa(histogramSize))
	var counts api.Values
	err := c.client.Get(ctx, "/events/histogram", query, &counts)
	*to = newHistogram(counts, f, "published", "handled", "retry_scheduled", "poisoned")
	return err
}

// openFailures are the unresolved failures of all time, by queue.
type openFailures struct {
	Total  int
	Queues []queueFailures // those with the most
	Others int             // queues that are left out
	counts map[string]int  // of all queues
}

// Of is the number of failures of a queue.
func (f openFailures) Of(queue string) int { return f.counts[queue] }

type queueFailures struct {
	Queue, Link string
	Count       int
}

func (c *Console) openFailures(ctx context.Context, to *openFailures) error {
	var groups api.GroupPage
	err := c.client.Get(ctx, "/failures/groups", url.Values{"limit": {"1"}}, &groups)
	to.Total, to.counts = groups.Failures, groups.Queues
	queues := slices.SortedFunc(maps.Keys(groups.Queues), func(a, b string) int {
		return cmp.Or(cmp.Compare(groups.Queues[b], groups.Queues[a]), cmp.Compare(a, b))
	})
	for _, queue := range queues[:min(len(queues), maxShownQueues)] {
		to.Queues = append(to.Queues, queueFailures{queue, failuresOf(queue), groups.Queues[queue]})
	}
	to.Others = len(queues) - len(to.Queues)
	return err
}

func failuresOf(queue string) string { return "/failures?" + ofQueue(queue) }

// ofQueue returns the parameters of a URL for a queue.
func ofQueue(queue string) string {
	return url.Values{"q": {kql.FieldIs("queue", queue).String()}}.Encode()
}

// serverStatus is the state of the server and of the queues that it indexes.
type serverStatus struct {
	app.Status
	Waiting int            // messages that are not in the store yet
	Lag     *time.Duration // of the slowest queue; nil: it is not known
}

// Uptime is the time since the server was started.
func (s serverStatus) Uptime() time.Duration { return time.Since(s.Started).Truncate(time.Second) }

func (c *Console) status(ctx context.Context, to *serverStatus) error {
	err := c.client.Get(ctx, "/status", nil, &to.Status)
	for _, q := range to.Index {
		to.Waiting += q.Messages
		if q.Lag == nil {
			continue
		}
		if lag := frame.Seconds(*q.Lag); to.Lag == nil || lag > *to.Lag {
			to.Lag = &lag
		}
	}
	return err
}

// runningJobs returns the replays that run, of the newest ones.
func (c *Console) runningJobs(ctx context.Context, to *[]api.Job) error {
	var jobs api.JobPage
	err := c.client.Get(ctx, "/replays", url.Values{"limit": {strconv.Itoa(recentJobs)}}, &jobs)
	*to = slices.DeleteFunc(jobs.Jobs, func(job api.Job) bool { return !job.Running })
	return err
}

// diagnosis has the findings of doctor, the worst first.
type diagnosis struct {
	api.Diagnosis
	Errors, Warnings int
}

func (c *Console) diagnose(ctx context.Context, maxAge int, to *diagnosis) error {
	err := c.client.Get(ctx, "/doctor", url.Values{"max_age_seconds": {strconv.Itoa(maxAge)}}, &to.Diagnosis)
	slices.SortStableFunc(to.Findings, func(a, b api.Finding) int { return cmp.Compare(severity(b), severity(a)) })
	for _, f := range to.Findings {
		switch f.Verdict {
		case doctor.Error:
			to.Errors++
		case doctor.Warning:
			to.Warnings++
		}
	}
	return err
}

func severity(f api.Finding) int {
	return slices.Index([]doctor.Verdict{doctor.OK, doctor.Warning, doctor.Error}, f.Verdict)
}

// Problems are the findings that need somebody.
func (d diagnosis) Problems() []api.Finding { return d.Findings[:d.Errors+d.Warnings] }
