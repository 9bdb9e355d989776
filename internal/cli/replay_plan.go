package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/replayer"
)

// replayPlan is the plan of a replay, with the input that starts it.
type replayPlan struct {
	replayer.Plan
	Unknown []string                // ids that name nothing
	Parked  []failures.ParkedCopies // queues with parked copies

	shown replays.Plan // as the operation has it
	start replays.StartInput
}

// planReplay plans a replay. Times relative to now become absolute, so that its start finds the
// same messages.
func planReplay(ctx context.Context, sys backend, r replays.Request, uncheckedRoutes bool) (replayPlan, error) {
	request, err := replayBody(sys, r)
	if err != nil {
		return replayPlan{}, err
	}
	request.UncheckedRoutes = uncheckedRoutes
	planned, err := replays.PlanReplay.Call(ctx, sys, replays.PlanInput{Body: request})
	if err != nil {
		return replayPlan{}, err
	}
	plan, err := planned.Body.Replayer()
	plan.Job = r.Job
	return replayPlan{plan, planned.Body.Unknown, planned.Body.Parked, planned.Body, planned.Start(rand.Text(), request)}, err
}

// replayBody returns a request as an operation takes it.
func replayBody(sys backend, r replays.Request) (replays.Replay, error) {
	query, err := replayQuery(sys, r)
	if err != nil {
		return replays.Replay{}, err
	}
	dsl, err := client.ObjectOf(string(r.DSL))
	return replays.Replay{
		Choice:  eventfilter.Choice{Filter: eventfilter.Filter{Query: query}, DSL: dsl, IDs: r.IDs},
		Group:   r.Group,
		Target:  replays.TargetOf(r.Job.Target),
		Changes: replays.ChangesOf(r.Job),
		Again:   r.Job.Again, Transform: r.Job.Transform, Rate: r.Job.Rate, Schedule: replays.ScheduleOf(r.Job), Limit: r.Job.Limit, Reason: r.Job.Reason,
	}, err
}

// replayQuery returns the query of a request with its period; "" if there are other
// criteria alone.
func replayQuery(sys backend, r replays.Request) (string, error) {
	var node kql.Node = kql.All{}
	var err error
	if r.Query != "" {
		if node, err = sys.ParseQuery(r.Query); err != nil {
			return "", err
		}
	}
	if node, err = r.Period.Limit(node); err != nil {
		return "", err
	}
	if node, err = client.AbsoluteTimes(node); err != nil {
		return "", err
	}
	query, _ := client.Split(node)
	if query == "" && r.Query != "" {
		query = "*"
	}
	return query, nil
}

// startReplay starts the job of a plan, which pauses after this number of messages; 0: it does not.
func startReplay(ctx context.Context, sys backend, plan replayPlan, stopAfter int) (replayer.Job, error) {
	plan.start.Body.StopAfter = stopAfter
	started, err := replays.StartReplay.Call(ctx, sys, plan.start)
	var lost *client.Error
	if errors.As(err, &lost) && lost.IsLost() {
		err = fmt.Errorf("%w\nit is not known whether the job was started: see watership jobs list", err)
	}
	return replayer.Job(started.Body.Record), err
}
