package replays

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/operation/eventfilter"

	"github.com/danielgtaylor/huma/v2"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/operation/sse"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/replayer"
)

// planTimeout bounds a plan, which reads all events of the query.
const planTimeout = 5 * time.Minute

// The operations of this file.
var (
	PlanReplay = operation.Declare[PlanInput, PlanOutput](operation.Operation{
		Method: http.MethodPost, Path: "/replays/plan", ID: "planReplay", Tag: "replays", Role: access.Operator, Timeout: planTimeout,
		Summary: "Plan a replay: what it would send, and where", Text: "Nothing is sent or stored.",
	})
	StartReplay = operation.Declare[StartInput, JobOutput](operation.Operation{
		Method: http.MethodPost, Path: "/replays", ID: "startReplay", Tag: "replays", Role: access.Operator, Timeout: planTimeout, Status: http.StatusAccepted,
		Summary: "Start a replay",
		Text: "Plans the replay and starts its job, unless the plan has a problem. The job runs in the server; if that ends, the job is paused. " +
			"A repeated request with the same Idempotency-Key gets the same job for 24 hours.",
	})
	ListReplays = operation.Declare[JobsInput, JobsOutput](operation.Operation{
		Method: http.MethodGet, Path: "/replays", ID: "listReplays", Tag: "replays", Role: access.Viewer,
		Summary: "List the jobs of replays, newest first",
	})
	GetReplay = operation.Declare[JobInput, JobOutput](operation.Operation{
		Method: http.MethodGet, Path: "/replays/{id}", ID: "getReplay", Tag: "replays", Role: access.Viewer,
		Summary: "Get the job of a replay",
	})
	GetOutcomes = operation.Declare[JobInput, OutcomesOutput](operation.Operation{
		Method: http.MethodGet, Path: "/replays/{id}/outcomes", ID: "getOutcomes", Tag: "replays", Role: access.Viewer,
		Summary: "Get what became of the messages that a job has sent",
	})
	WatchReplay = operation.Declare[JobInput, huma.StreamResponse](operation.Operation{
		Method: http.MethodGet, Path: "/replays/{id}/watch", ID: "watchReplay", Tag: "replays", Role: access.Viewer, Stream: true,
		Summary:   "Watch a job until it stops",
		Text:      "Server-sent events of the type job, each with the job as JSON, when it changes.",
		Responses: sse.Responses(sse.ContentType, "Server-sent events"),
	})
	CancelReplay = operation.Declare[CancelInput, JobOutput](operation.Operation{
		Method: http.MethodPost, Path: "/replays/{id}/cancel", ID: "cancelReplay", Tag: "replays", Role: access.Operator,
		Summary: "Cancel a job", Text: "If it is running, it stops within seconds. Messages that were sent stay sent.",
	})
	ResumeReplay = operation.Declare[ResumeInput, JobOutput](operation.Operation{
		Method: http.MethodPost, Path: "/replays/{id}/resume", ID: "resumeReplay", Tag: "replays", Role: access.Operator, Status: http.StatusAccepted,
		Summary: "Resume a job that stopped",
	})
)

// operations are the functions of the operations.
type operations struct {
	System *system.System
	runs   Starter
}

// Starter has a job run.
type Starter interface {
	// Start asks for a run of a job, which pauses after this number of messages; 0: it does not.
	Start(ctx context.Context, job replayer.Job, stopAfter int) error
}

// Implement adds the operations on replays, whose jobs a Starter has run, to a set.
func Implement(set *operation.Set, sys *system.System, runs Starter) {
	o := operations{sys, runs}
	operation.Implement(set, PlanReplay, o.planReplay)
	operation.Implement(set, StartReplay, o.startReplay)
	operation.Implement(set, ListReplays, o.listReplays)
	operation.Implement(set, GetReplay, o.getReplay)
	operation.Implement(set, GetOutcomes, o.getOutcomes)
	operation.Implement(set, WatchReplay, o.watchReplay)
	operation.Implement(set, CancelReplay, o.cancelReplay)
	operation.Implement(set, ResumeReplay, o.resumeReplay)
}

// StartInput is the input of StartReplay.
type StartInput struct {
	operation.IdempotencyKey
	Body Replay

	planned *replayer.Plan // in this process; nil: the replay is planned again
}

// JobOutput is the output of the operations on one job.
type JobOutput struct{ Body Job }

func (o operations) startReplay(ctx context.Context, in *StartInput) (*JobOutput, error) {
	access.Describe(ctx, access.Action{Name: "replay", Object: in.Body.Query, Reason: in.Body.Reason})
	same := in.Body
	same.Expect, same.UpTo = nil, 0 // a repeated request is counted again
	key := NewKey(ctx, in.Key, same)
	jobs, err := Replayer(ctx, o.System)
	if err != nil {
		return nil, err
	}
	store, err := o.System.Store(ctx)
	if err != nil {
		return nil, err
	}
	known, err := key.Find(ctx, store, jobs)
	if err != nil {
		return nil, err
	}
	if known.ID != "" {
		return outputOf(ctx, known), o.startPlanned(ctx, known, in.Body.StopAfter)
	}
	plan, err := o.planOf(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := operation.CheckNumber(in.Body.Expect, plan.Matched, "message"); err != nil {
		return nil, err
	}
	if refused := (*PlanError)(nil); errors.As(CheckPlan(plan, in.Body.UncheckedRoutes, in.planned == nil), &refused) {
		remedy := cmp.Or(refused.Remedy("unchecked_routes"), "see the plan of the same request")
		return nil, &problem.Problem{Code: code.PlanRefused, Detail: refused.Error(), Remedy: strings.ToUpper(remedy[:1]) + remedy[1:] + "."}
	}
	job, err := key.Create(ctx, store, jobs, plan)
	if err != nil {
		return nil, err
	}
	access.Describe(ctx, access.Action{Object: "job " + job.ID})
	return outputOf(ctx, job), o.startPlanned(ctx, job, in.Body.StopAfter)
}

// planOf returns the plan of a replay to start.
func (o operations) planOf(ctx context.Context, in *StartInput) (replayer.Plan, error) {
	if in.planned != nil {
		return *in.planned, nil
	}
	return o.plan(ctx, in.Body)
}

// startPlanned starts a job that no process has started.
func (o operations) startPlanned(ctx context.Context, job replayer.Job, stopAfter int) error {
	if job.State != replayer.Planned {
		return nil
	}
	return o.runs.Start(ctx, job, stopAfter)
}

// JobsInput is the input of ListReplays.
type JobsInput struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"20" doc:"Maximum number of jobs"`
	Cursor string `query:"cursor" maxLength:"100" doc:"Cursor of the page before"`
}

// JobsOutput is the output of ListReplays.
type JobsOutput struct{ Body JobPage }

// JobPage is a page of jobs.
type JobPage struct {
	Jobs       []Job    `json:"jobs" nullable:"false"`
	Cursor     string   `json:"cursor,omitempty" doc:"Continues after this page; none: this is the last"`
	Unreadable []string `json:"unreadable,omitempty" nullable:"false" doc:"Problems of jobs that cannot be read"`
}

func (o operations) listReplays(ctx context.Context, in *JobsInput) (*JobsOutput, error) {
	jobs, err := Replayer(ctx, o.System)
	if err != nil {
		return nil, err
	}
	page, isPast := JobPage{Jobs: []Job{}}, in.Cursor == "" // jobs that cannot be read have no id to compare
	for job, err := range jobs.Jobs(ctx) {
		var failed *eventstore.Error
		isPast = isPast || err == nil && job.ID <= in.Cursor
		switch {
		case errors.As(err, &failed):
			return nil, err
		case !isPast, err == nil && (job.ID == in.Cursor || !maySee(ctx, job)):
			continue
		case len(page.Jobs) == in.Limit:
			page.Cursor = page.Jobs[len(page.Jobs)-1].ID
			return &JobsOutput{page}, nil
		case err != nil:
			page.Unreadable = append(page.Unreadable, err.Error())
		default:
			page.Jobs = append(page.Jobs, NewJob(visible(ctx, job)))
		}
	}
	if len(page.Jobs)+len(page.Unreadable) == 0 && in.Cursor == "" && ctx.Err() == nil {
		return &JobsOutput{page}, o.System.CheckStore(ctx) // may be the reason
	}
	return &JobsOutput{page}, ctx.Err()
}

// maySee reports whether the caller may see a job. Queries and counts tell about queues, so
// a caller with limits sees the jobs that have its limits, as its own do.
func maySee(ctx context.Context, job replayer.Job) bool {
	return access.FromContext(ctx).Within(job.Query)
}

// visible returns a job as the caller may see it: programs may have the body that an operator has
// written for a message, and their errors quote bodies.
func visible(ctx context.Context, job replayer.Job) replayer.Job {
	if access.ShowsBodies(ctx) || job.Transform == "" {
		return job
	}
	job.Transform, job.Failures = access.HiddenProgram, slices.Clone(job.Failures)
	for i := range job.Failures {
		if f := &job.Failures[i]; f.Cause == replayer.TransformFailed {
			f.Reason = "the program failed"
		}
	}
	return job
}

func outputOf(ctx context.Context, job replayer.Job) *JobOutput {
	return &JobOutput{NewJob(visible(ctx, job))}
}

// JobInput names a job.
type JobInput struct {
	ID string `path:"id" maxLength:"100" doc:"Id of the job"`
}

func (o operations) getReplay(ctx context.Context, in *JobInput) (*JobOutput, error) {
	_, job, err := o.job(ctx, in.ID)
	return outputOf(ctx, job), err
}

// job reads a job that the caller may see.
func (o operations) job(ctx context.Context, id string) (*replayer.Replayer, replayer.Job, error) {
	jobs, err := Replayer(ctx, o.System)
	if err != nil {
		return nil, replayer.Job{}, err
	}
	job, err := jobs.Job(ctx, id)
	if err == nil && !maySee(ctx, job) {
		err = &replayer.NoJobError{ID: id}
	}
	return jobs, job, err
}

// OutcomesOutput is the output of GetOutcomes.
type OutcomesOutput struct{ Body Outcomes }

// Outcomes are what became of the messages that a job has sent.
type Outcomes struct {
	Sent        int      `json:"sent"`
	Handled     int      `json:"handled"`
	Failed      int      `json:"failed"`
	Pending     int      `json:"pending" doc:"Messages about which no consumer has reported"`
	Problems    []string `json:"problems" nullable:"false" doc:"A few distinct errors"`
	NotReported []string `json:"not_reported" nullable:"false" doc:"Queues that reported about a message before, and not yet about its replay"`
	PendingIDs  []string `json:"pending_ids" nullable:"false" doc:"Events whose replays are pending (watership.replay.of), a few of them"`
}

func (o operations) getOutcomes(ctx context.Context, in *JobInput) (*OutcomesOutput, error) {
	jobs, job, err := o.job(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	found, err := jobs.Outcomes(ctx, job)
	caller := access.FromContext(ctx)
	silent := slices.DeleteFunc(found.NotReported, func(queue string) bool { return !caller.MayQueue(queue) })
	return &OutcomesOutput{Outcomes{
		job.Sent, found.Handled, found.Failed, max(0, job.Sent-found.Handled-found.Failed), append([]string{}, found.Problems...), append([]string{}, silent...), append([]string{}, found.Pending...),
	}}, err
}

const watchInterval = time.Second

func (o operations) watchReplay(ctx context.Context, in *JobInput) (*huma.StreamResponse, error) {
	jobs, job, err := o.job(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return sse.RespondEvents(sse.WriteTimeout, func(ctx context.Context, to *sse.Writer) error {
		for shown := (time.Time{}); ; {
			if !job.Updated.Equal(shown) {
				shown = job.Updated
				if err := to.Send("job", "", NewJob(visible(ctx, job))); err != nil {
					return err
				}
			} else if err := to.KeepAlive(); err != nil {
				return err
			}
			if job.State != replayer.Planned && !job.Running(time.Now()) {
				return nil
			}
			if backoff.Sleep(ctx, watchInterval) != nil {
				return nil
			}
			if job, err = jobs.Job(ctx, job.ID); err != nil {
				return err
			}
		}
	}), nil
}

// CancelInput is the input of CancelReplay.
type CancelInput struct {
	ID   string `path:"id" maxLength:"100" doc:"Id of the job"`
	Body *struct {
		Reason string `json:"reason,omitempty" maxLength:"1000" doc:"Reason in the job's record"`
	}
}

func (o operations) cancelReplay(ctx context.Context, in *CancelInput) (*JobOutput, error) {
	reason := ""
	if in.Body != nil {
		reason = in.Body.Reason
	}
	access.Describe(ctx, access.Action{Name: "cancel", Object: "job " + in.ID, Reason: reason})
	jobs, job, err := o.job(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if job.State == replayer.Cancelled {
		return outputOf(ctx, job), nil
	}
	why := "by " + access.FromContext(ctx).Name
	if reason != "" {
		why += ": " + reason
	}
	if job.Finished() {
		return nil, &problem.Problem{Code: code.HasEnded, Detail: fmt.Sprintf("job %s is %s: there is nothing left to cancel", job.ID, job.State)}
	}
	job, err = jobs.Cancel(ctx, in.ID, why)
	return outputOf(ctx, job), err
}

// ResumeInput is the input of ResumeReplay.
type ResumeInput struct {
	ID string `path:"id" maxLength:"100" doc:"Id of the job"`
	operation.IdempotencyKey
	Body *struct {
		StopAfter int  `json:"stop_after,omitempty" minimum:"0" doc:"Pause the job again after this many messages"`
		Expect    *int `json:"expect,omitempty" minimum:"0" nullable:"true" doc:"Send nothing if another number of messages is left than this one: total less sent, skipped, stopped and failed"`
	}
}

func (o operations) resumeReplay(ctx context.Context, in *ResumeInput) (*JobOutput, error) {
	access.Describe(ctx, access.Action{Name: "resume", Object: "job " + in.ID})
	_, job, err := o.job(ctx, in.ID)
	switch {
	case err != nil:
		return nil, err
	case job.Finished():
		return nil, &problem.Problem{Code: code.HasEnded, Detail: EndedText(job)}
	}
	again := Replay{
		Choice: eventfilter.Choice{IDs: []string{job.ID}}, Target: NewJob(job).Target, Transform: job.Transform, Schedule: Schedule{Order: job.Order},
	}
	if in.Body != nil {
		again.StopAfter = in.Body.StopAfter
	}
	if err := o.checkReplay(access.FromContext(ctx), again); err != nil {
		return nil, err
	}
	if in.Body != nil {
		if err := operation.CheckNumber(in.Body.Expect, Left(job), "message"); err != nil {
			return nil, err
		}
	}
	return outputOf(ctx, job), o.runs.Start(ctx, job, again.StopAfter)
}
