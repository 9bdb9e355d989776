package console

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/console/view/replaypage"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/replayer"
)

// replayJob is a job as pages show it.
type replayJob struct{ replaypage.Job }

// Link is the address of the job's page.
func (j replayJob) Link() string { return "/replays/" + url.PathEscape(j.ID) }

// Messages returns a link to the events of the job that match a query; "" for all.
func (j replayJob) Messages(query string) string {
	return messagesLink(frame.Within("replay.job: "+strconv.Quote(j.ID), query))
}

// Again is a link to a plan that sends what failed to the queue that failed, once its cause is mended.
func (j replayJob) Again() string {
	query := frame.Within("replay.job: "+strconv.Quote(j.ID), history.GivenUp().String())
	return linkTo("/replays/new", url.Values{"q": {query}, "since": {frame.AllTime}, "target": {string(replayer.ToFailedQueue)}})
}

func messagesLink(query string) string {
	return linkTo("/messages", url.Values{"q": {query}, "since": {frame.AllTime}})
}

// QueryLink is a link to the messages that the job has selected; "" if its query is too long.
func (j replayJob) QueryLink() string {
	if !frame.FitsQuery(j.Query) {
		return ""
	}
	return messagesLink(j.Query)
}

// replaysView is the page of the jobs.
type replaysView struct {
	Jobs        []replayJob
	Unreadable  []string
	Later, Next string // links to the first and the next page
	Problem     *problem.Problem
}

const (
	refreshJob      = time.Second
	refreshOutcomes = 5 * time.Second
)

// replays lists the jobs of replays.
func (c replayPages) replays(r *http.Request) (frame.Response, error) {
	shown := frame.Page{Title: "Replays", Section: "/replays", Template: "replays.html", Styles: []string{"failures.css"}}
	var v replaysView
	in := replays.JobsInput{Limit: 50, Cursor: r.URL.Query().Get("cursor")}
	if in.Cursor != "" {
		v.Later = "/replays"
	}
	page, err := replays.ListReplays.Call(r.Context(), c.api, in)
	found := page.Body
	if err != nil {
		v.Problem = frame.ProblemOf(err)
		if shown.Status = v.Problem.Status; shown.Status == http.StatusServiceUnavailable {
			shown.Refresh = storeRetry
		}
	}
	for _, job := range found.Jobs {
		v.Jobs = append(v.Jobs, replayJob{replaypage.Job{Job: job}})
		if job.Running || startsSoon(job) {
			shown.Refresh = refreshJob
		}
	}
	if v.Unreadable = found.Unreadable; found.Cursor != "" {
		v.Next = linkTo("/replays", url.Values{"cursor": {found.Cursor}})
	}
	shown.Data = v
	return shown, nil
}

// startsSoon reports whether a job was planned just now.
func startsSoon(job replays.Job) bool {
	return job.State == replayer.Planned && time.Since(job.Created) < time.Minute
}

// jobView is the page of a job.
type jobView struct {
	Job      replayJob
	Outcomes *replays.Outcomes // nil: not read
	Pending  string            // link to some messages that are pending
	Waits    bool              // the page is refreshed until the outcomes are known
	Resumed  time.Time         // when a form has resumed the job; zero: none has
	Canary   int
	Problem  *problem.Problem
	Typed    bool // the operator must type the number of messages that are left
	Key      string
}

// Outcomes take 0.6 s for 10,000 messages in the embedded store. Outcomes of a larger job
// are read only on request, and of a job that runs only if they are few.
const (
	maxOutcomes = 10_000
	fewOutcomes = 1_000
)

// resumesSoon is how long a job that was resumed may take to run.
const resumesSoon = 30 * time.Second

// Pages are refreshed while outcomes are pending: often at first, and not for ever.
const (
	outcomesSoon  = time.Minute
	outcomesLater = 10 * time.Minute
)

// replay shows a job.
func (c replayPages) replay(r *http.Request) (frame.Response, error) { return c.showJob(r, nil) }

// showJob shows a job, and the problem of an action that was refused.
func (c replayPages) showJob(r *http.Request, refused *problem.Problem) (frame.Response, error) {
	job, err := c.job(r)
	if err != nil {
		return nil, err
	}
	v := jobView{Job: job, Canary: replaypage.DefaultCanary, Problem: refused, Key: rand.Text()}
	shown := frame.Page{Title: "Replay " + v.Job.ID, Section: "/replays", Template: "replay.html", Styles: []string{"failures.css"}}
	if refused != nil {
		shown.Status = refused.Status
	}
	asked := r.URL.Query().Get("outcomes") != ""
	if n := v.Job.Sent; n > 0 && (asked || n <= fewOutcomes || n <= maxOutcomes && !v.Job.Running) {
		outcomes, err := replays.GetOutcomes.Call(r.Context(), c.api, replays.JobInput{ID: r.PathValue("id")})
		if v.Outcomes = &outcomes.Body; err != nil {
			v.Outcomes, v.Problem = nil, frame.ProblemOf(err)
		}
	}
	v.Pending, v.Typed = v.pendingLink(), v.Job.Left() > frame.TypedAbove
	if done, at := c.DoneBefore(r); done.Has("resumed") {
		v.Resumed = at
	}
	if !asked {
		shown.Refresh = v.refresh(time.Now())
	}
	v.Waits = shown.Refresh > 0
	shown.Data = v
	return shown, nil
}

// job reads the job of a page.
func (c replayPages) job(r *http.Request) (replayJob, error) {
	found, err := replays.GetReplay.Call(r.Context(), c.api, replays.JobInput{ID: r.PathValue("id")})
	return replayJob{replaypage.Job{Job: found.Body}}, frame.Unknown(err, "Look for it on the page of all replays.")
}

// refresh returns how often the page is read again.
func (v jobView) refresh(now time.Time) time.Duration {
	since := now.Sub(v.Job.Updated)
	switch {
	case v.Job.Running, startsSoon(v.Job.Job.Job), v.Job.Updated.Before(v.Resumed) && now.Sub(v.Resumed) < resumesSoon:
		return refreshJob
	case v.Outcomes == nil || v.Outcomes.Pending == 0 || since > outcomesLater:
		return 0
	case since > outcomesSoon, v.Job.Sent > fewOutcomes:
		return refreshOutcomes
	}
	return refreshJob
}

func (v jobView) pendingLink() string {
	if v.Outcomes == nil || len(v.Outcomes.PendingIDs) == 0 {
		return ""
	}
	var ids []string
	for _, id := range v.Outcomes.PendingIDs {
		ids = append(ids, strconv.Quote(id))
	}
	return v.Job.Messages("action: replayed and replay.of: (" + strings.Join(ids, " or ") + ")")
}

// resumeReplay sends the rest of a job, or some more of its messages.
func (c replayPages) resumeReplay(r *http.Request) (frame.Response, error) {
	more, stopAfter := r.PostForm.Get("more") != "", 0
	left, refused := frame.Confirmation{Name: "a replay", Unit: "message"}.Read(r.PostForm, more)
	if more && refused == nil {
		var err error
		if stopAfter, err = strconv.Atoi(r.PostForm.Get("canary")); err != nil || stopAfter < 1 {
			refused = frame.Unprocessable("expected a number of messages to send", "")
		}
	}
	if refused != nil {
		return c.showJob(r, refused)
	}
	in := replays.ResumeInput{ID: r.PathValue("id"), IdempotencyKey: frame.KeyOf(r)}
	body := operation.Fill(&in.Body)
	body.StopAfter, body.Expect = stopAfter, left.Expect
	if _, err := replays.ResumeReplay.Call(r.Context(), c.api, in); err != nil {
		return c.showJob(r, frame.ProblemOf(err))
	}
	return c.Done(jobPath(r), url.Values{"resumed": {""}}), nil
}

// cancelPage asks whether to cancel a job.
func (c replayPages) cancelPage(r *http.Request) (frame.Response, error) {
	if err := frame.NeedOperator(r, "cancelling a job"); err != nil {
		return nil, err
	}
	job, err := c.job(r)
	return frame.Page{Title: "Cancel replay", Section: "/replays", Template: "replay_cancel.html", Data: job}, err
}

// cancelReplay cancels a job.
func (c replayPages) cancelReplay(r *http.Request) (frame.Response, error) {
	in := replays.CancelInput{ID: r.PathValue("id")}
	operation.Fill(&in.Body).Reason = strings.TrimSpace(r.PostForm.Get("reason"))
	if _, err := replays.CancelReplay.Call(r.Context(), c.api, in); err != nil {
		return c.showJob(r, frame.ProblemOf(err))
	}
	return frame.Redirect(jobPath(r)), nil
}

// jobPath returns the address of the job of a request.
func jobPath(r *http.Request) string { return "/replays/" + operation.Segment(r.PathValue("id")) }
